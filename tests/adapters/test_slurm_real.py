"""A real Slurm: what its tools write is read, and our host lists are those that Slurm itself expands."""

from __future__ import annotations

import asyncio
import time

import pytest
from real_slurm import run, slurm

from railkeeper.adapters.hostlist import expand
from railkeeper.adapters.runner import Runner
from railkeeper.adapters.slurm import read_jobs, read_nodes
from railkeeper.adapters.slurm_source import SlurmTools, run_tool
from railkeeper.base.errors import CapabilityError, OutsideError


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with slurm(tmp_path_factory.mktemp("slurm")):
        run("sbatch", "-N2", "--gres=gpu:8", "-J", "train", "--wrap", "sleep 60", "-o", "/dev/null")
        run(
            "sbatch", "-N1", "--gres=gpu:2", "-J", "small|odd", "--array=1-2%1", "--wrap", "sleep 60", "-o", "/dev/null"
        )
        run("sbatch", "-N4", "-J", "waits", "--gres=gpu:8", "--wrap", "sleep 60", "-o", "/dev/null")
        run("scontrol", "update", "NodeName=n004", "State=DRAIN", "Reason=NHC: link eth2 down State=IDLE")
        deadline = time.monotonic() + 20
        while run("squeue", "-h", "-t", "R").count("\n") < 2:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        yield


def test_nodes_of_the_real_tools(cluster):
    """Both ways of Slurm to write its nodes say the same."""
    as_json, as_text = read_nodes(run("sinfo", "--json")), read_nodes(run("scontrol", "show", "node", "-o"))

    by_name = {node.name: node for node in as_json.items}
    assert sorted(by_name) == ["n001", "n002", "n003", "n004"]
    assert {n.name: (n.state, n.schedulable, n.reason, n.gpus) for n in as_text.items} == {
        n.name: (n.state, n.schedulable, n.reason, n.gpus) for n in as_json.items
    }
    assert (as_json.bad, as_text.bad) == (0, 0)
    assert by_name["n001"].state == "mixed"
    assert by_name["n001"].gpus == 8
    assert by_name["n001"].schedulable
    drained = next(node for node in as_text.items if node.name == "n004")
    assert (drained.state, drained.flags, drained.schedulable) == ("idle", ("drain",), False)
    assert (drained.reason, drained.reason_by) == ("NHC: link eth2 down State=IDLE", "root")
    assert abs(drained.reason_ns - time.time_ns()) < 120e9
    assert abs(by_name["n004"].reason_ns - drained.reason_ns) <= 1e9


def test_jobs_of_the_real_tool(cluster):
    jobs = read_jobs(run("squeue", "--json"))

    by_name = {}
    for job in jobs.items:
        by_name.setdefault(job.name, []).append(job)
    assert (jobs.seen, jobs.bad) == (len(jobs.items), 0)
    (train,), (waits,) = by_name["train"], by_name["waits"]
    assert (train.state, train.nodes, train.gpus, train.user) == ("running", ("n001", "n002"), 16, "root")
    assert abs(train.start_ns - time.time_ns()) < 120e9
    assert train.end_ns is None
    assert (waits.state, waits.nodes, waits.gpus, waits.start_ns) == ("pending", (), 32, None)
    small = by_name["small|odd"]
    assert {job.state for job in small} == {"running", "pending"}
    assert {job.gpus for job in small} == {2}
    assert all(job.id.startswith("2_") for job in small)


def test_the_source_runs_the_tools(cluster):
    target = SlurmTools("slurm", "head", interval_s=0.2)
    with Runner([target]) as runner:
        deadline = time.monotonic() + 20
        while target.latest is None:
            assert time.monotonic() < deadline, runner.statuses()
            time.sleep(0.02)
        assert runner.statuses()[0].error == ""

    assert len(target.latest.nodes.items) == 4
    assert len(target.latest.jobs.items) == 4
    assert abs(target.latest.nodes.items[3].reason_ns - time.time_ns()) < 120e9


def test_errors_of_the_tools_are_told_in_their_words(cluster):
    with pytest.raises(OutsideError, match=r"scontrol show node nowhere: exit 1: Node nowhere not found"):
        asyncio.run(run_tool(("scontrol", "show", "node", "nowhere")))
    with pytest.raises(OutsideError, match="wrote more than 10 bytes"):
        asyncio.run(run_tool(("squeue", "--json"), max_bytes=10))


@pytest.mark.parametrize(
    "text", ["n[001-003,7],gpu5", "n[01-12]", "a-b[9-11],c.d", "n[099-101]", "n1,n1", "r[1-2]n[08-11]", "n[0-0,00-01]"]
)
def test_host_lists_are_those_that_slurm_expands(cluster, text):
    assert list(expand(text)) == run("scontrol", "show", "hostnames", text).split()


def test_a_host_without_slurm_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(CapabilityError, match="Slurm's client tools are needed"):
        asyncio.run(run_tool(("squeue", "--json")))
