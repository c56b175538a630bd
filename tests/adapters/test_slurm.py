"""Lists of other versions of Slurm than the one at hand, as their tools write them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railkeeper.adapters.slurm import read_jobs, read_nodes
from railkeeper.base.errors import InputError

# Versions from 23.02 on write lists of states and wrapped numbers.
NEW_NODES = {
    "nodes": [
        {
            "name": "gpu-001",
            "state": ["MIXED", "DRAIN", "NOT_RESPONDING"],
            "reason": "Kill task failed",
            "reason_changed_at": {"set": True, "infinite": False, "number": 1700000000},
            "reason_set_by_user": "slurm",
            "gres": "gpu:h100:8(S:0-1),nic:4",
        },
        {"name": "gpu-002", "state": ["IDLE", "PLANNED"], "gres": "", "reason": ""},
        {"name": "gpu-003", "state": ["ALLOCATED"], "gres": "gpu:a:4,gpu:b:4"},
        {"state": ["IDLE"]},
        "no node",
    ]
}
NEW_JOBS = {
    "jobs": [
        {
            "job_id": 41,
            "name": "pretrain",
            "user_name": "ada",
            "job_state": ["RUNNING", "COMPLETING"],
            "nodes": "gpu-[001-002]",
            "start_time": {"set": True, "infinite": False, "number": 1700000000},
            "end_time": {"set": True, "infinite": False, "number": 1800000000},
            "tres_alloc_str": "cpu=64,mem=1T,node=2,billing=64,gres/gpu=16,gres/gpu:h100=16",
            "array_job_id": {"set": True, "infinite": False, "number": 0},
            "array_task_id": {"set": False, "infinite": False, "number": 0},
        },
        {"job_id": 42, "job_state": ["PENDING"], "nodes": "", "array_job_id": 40, "array_task_string": "3-9%2"},
        {"job_id": 43, "job_state": ["NODE_FAIL"], "nodes": "gpu-[1-", "end_time": 1700000100},
        {"job_id": 44, "job_state": ["NODE_FAIL"], "nodes": "gpu-1", "end_time": 1700000100, "gres_detail": ["gpu:8"]},
        {"job_id": 45, "job_state": ["BORED"], "nodes": ""},
    ]
}
SACCT = """JobID|User|State|Start|End|AllocTRES|NodeList|JobName
12|ada|COMPLETED|1700000000|1700000600|billing=2,cpu=2,gres/gpu=4,node=2|n[1-2]|a|b
12.batch||COMPLETED|1700000000|1700000600|cpu=2|n1|batch
13|bob|CANCELLED by 1000|Unknown|1700000600||None assigned|x
14|bob|NODE_FAIL|2023-11-14T22:13:20|2023-11-14T22:14:20|gres/gpu:h100=8|n3|y
15|bob|RUNNING|1700000000
"""


def test_nodes_of_new_versions():
    nodes = read_nodes(json.dumps(NEW_NODES))

    first, second, third = nodes.items
    assert (first.state, first.flags, first.schedulable) == ("mixed", ("drain", "not_responding"), False)
    assert (first.gpus, first.reason, first.reason_by, first.reason_ns) == (
        8,
        "Kill task failed",
        "slurm",
        1700000000 * 10**9,
    )
    assert (second.state, second.flags, second.schedulable, second.gpus) == ("idle", ("planned",), True, 0)
    assert (third.state, third.gpus, third.reason_ns) == ("allocated", 8, None)
    assert (nodes.seen, nodes.bad) == (5, 2)
    assert nodes.problems[0].startswith("node 4: name: None")


def test_jobs_of_new_versions():
    jobs = read_jobs(json.dumps(NEW_JOBS))

    assert [(j.id, j.state, j.gpus) for j in jobs.items] == [
        ("41", "running", 16), ("40_[3-9%2]", "pending", None), ("44", "failed", 8), ("45", "unknown", None),
    ]  # fmt: skip
    assert jobs.items[0].nodes == ("gpu-001", "gpu-002")
    assert (jobs.items[0].end_ns, jobs.items[2].end_ns) == (None, 1700000100 * 10**9)
    assert (jobs.seen, jobs.bad) == (5, 1)
    assert "nodes of job 43" in jobs.problems[0]


@pytest.mark.parametrize(
    ("state", "meaning", "schedulable"),
    [
        ("IDLE", "idle", True),
        ("IDLE*", "idle", False),
        ("MIXED+DRAIN", "mixed", False),
        ("DOWN*+DRAIN", "down", False),
        ("ALLOCATED+MAINT", "allocated", False),
        ("ALLOCATED+RESERVED", "allocated", True),
        ("IDLE~", "idle", False),
        ("IDLE@", "idle", True),
        ("IDLE^", "idle", False),
        ("MIXED-", "mixed", True),
        ("STRANGE", "unknown", False),
    ],
)
def test_states_with_flags(state, meaning, schedulable):
    (node,) = read_nodes(f"NodeName=n1 Gres=(null) State={state} Weight=1\n").items

    assert (node.state, node.schedulable, node.gpus) == (meaning, schedulable, 0)


def test_sacct_leaves_steps_out_and_tells_short_lines():
    jobs = read_jobs(SACCT)

    assert [(j.id, j.name, j.user, j.state, j.nodes, j.gpus) for j in jobs.items] == [
        ("12", "a|b", "ada", "completed", ("n1", "n2"), 4),
        ("13", "x", "bob", "failed", (), None),
        ("14", "y", "bob", "failed", ("n3",), 8),
    ]
    assert jobs.items[0].end_ns - jobs.items[0].start_ns == 600 * 10**9
    assert (jobs.seen, jobs.left_out, jobs.bad) == (5, 1, 1)


def test_a_job_name_that_looks_like_fields_is_told_where_it_could_deceive():
    text = "JobID|JobName|State|NodeList\n7|x|COMPLETED|n9|RUNNING|n1\n"

    assert read_jobs(text).problems == ("line 1: job: 6 fields, not 4; JobName as the last field of sacct -o",)


@pytest.mark.parametrize("text", ["", "{}", '{"nodes": 3}', "[1]", "sinfo: error: no", '{"nodes":[', "[" * 5000])
def test_what_is_no_list_is_refused(text):
    if text:
        with pytest.raises(InputError):
            read_nodes(text)
    with pytest.raises(InputError):
        read_jobs(text)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
keys = st.sampled_from(
    ["name", "state", "state_flags", "gres", "reason", "reason_changed_at", "job_id", "job_state", "nodes",
     "array_job_id", "array_task_id", "gres_detail", "tres_per_node", "node_count", "start_time"]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(st.dictionaries(keys, anything, max_size=8) | anything, max_size=4))
def test_any_json_is_read_or_told(entries):
    """Nothing is lost: each entry is a record, left out, or bad."""
    for listed in (read_nodes(json.dumps({"nodes": entries})), read_jobs(json.dumps({"jobs": entries}))):
        assert listed.seen == len(entries) == len(listed.items) + listed.left_out + listed.bad
        assert bool(listed.bad) == bool(listed.problems)
