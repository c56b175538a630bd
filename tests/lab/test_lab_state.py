"""Notes of labs: a killed one is cleaned up, a live one and strangers are not, kernel settings go back with the last."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import unique_prefix
from lab_packets import send_over, small_fabric, t1_bounce

from railkeeper.base.errors import OutsideError
from railkeeper.lab import state
from railkeeper.lab.build import build, clean_stale

pytestmark = pytest.mark.lab

KILLED = """
import sys, time
from lab_packets import fault, small_fabric
from railkeeper.lab.build import build
from railkeeper.lab.crew import Crew
from railkeeper.lab.faults import Injector
lab = build(small_fabric(), sys.argv[1])
crew = Crew(lab)
crew.start("agent", 0, time.sleep, 600)
Injector(lab, crew).inject(fault(lab.fabric, kind="delay", target="p0/t1-0", ms=1))
print(*crew.alive().values(), flush=True)
time.sleep(600)
"""


@pytest.fixture
def killed(prefix):
    """A lab whose owner was killed with SIGKILL, with an agent and a relay; gives (prefix, process number of the agent)."""
    here = str(Path(__file__).parent)
    owner = subprocess.Popen([sys.executable, "-c", KILLED, prefix], stdout=subprocess.PIPE, text=True, cwd=here)
    with owner:
        agent = int(owner.stdout.readline())
        owner.send_signal(signal.SIGKILL)
        owner.wait()
    return prefix, agent


def names_with(prefix):
    return [p.name for p in Path("/run/netns").iterdir() if p.name.startswith(f"{prefix}-")]


@pytest.fixture
def live(make_lab):
    """A lab of our own, there before another one is killed: a start cleans up, and would leave nothing to see."""
    return make_lab(small_fabric())


def test_what_a_killed_lab_left_is_removed_and_only_that(live, killed):
    prefix, _ = killed
    theirs = unique_prefix() + "-n0"
    subprocess.run(["ip", "netns", "add", theirs], check=True)
    try:
        left = names_with(prefix)
        assert len(left) == 12

        assert set(clean_stale()) >= set(left)

        assert names_with(prefix) == []
        assert Path("/run/netns", theirs).exists()
        assert live.verify() == []
        assert send_over(live, t1_bounce(0, 0, 0), 10).good == 10
    finally:
        subprocess.run(["ip", "netns", "delete", theirs], check=True)


def test_no_process_outlives_a_killed_owner(killed):
    _, agent = killed
    deadline = time.monotonic() + 5
    while state.start_time(agent) is not None and time.monotonic() < deadline:
        time.sleep(0.01)

    assert state.start_time(agent) is None


def test_the_next_start_cleans_up_by_itself(killed):
    prefix, _ = killed
    with build(small_fabric(), prefix) as lab:
        assert lab.verify() == []


def test_a_later_process_of_the_same_number_is_not_taken_for_the_owner(capable, tmp_path):
    me = state.me()
    note = {"schema": 1, "owner": {"pid": me.pid, "start": me.start - 1}, "spaces": []}
    (tmp_path / "old.lab.json").write_text(json.dumps(note))

    assert clean_stale(tmp_path) == []
    assert not (tmp_path / "old.lab.json").exists()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"owner": 3}'])
def test_a_torn_note_means_no_namespace(capable, tmp_path, text):
    (tmp_path / "torn.lab.json").write_text(text)

    assert clean_stale(tmp_path) == []
    assert list(tmp_path.glob("*.lab.json")) == []


@pytest.fixture
def sysctls(monkeypatch):
    """Kernel settings that are not the machine's."""
    values = {"net.core.netdev_max_backlog": 1000, "net.core.fb_tunnels_only_for_init_net": 0}
    monkeypatch.setattr(state, "_get", values.get)
    monkeypatch.setattr(state, "_set", values.__setitem__)
    return values


def test_kernel_settings_go_back_with_the_last_lab(tmp_path, sysctls):
    before = dict(sysctls)
    state.claim("a", [], tmp_path)
    state.claim("b", [], tmp_path)
    state.release("a", tmp_path)

    assert sysctls == state.WANTED
    state.release("b", tmp_path)
    assert sysctls == before


def test_settings_that_are_higher_already_or_changed_since_are_left_alone(tmp_path, sysctls):
    sysctls |= {"net.core.netdev_max_backlog": 90_000}
    state.claim("a", [], tmp_path)
    assert sysctls["net.core.netdev_max_backlog"] == 90_000
    sysctls |= {"net.core.netdev_max_backlog": 70_000}
    state.release("a", tmp_path)

    assert sysctls["net.core.netdev_max_backlog"] == 70_000


def test_a_prefix_in_use_is_refused(tmp_path, sysctls):
    state.claim("a", [], tmp_path)
    with pytest.raises(OutsideError, match="give another prefix"):
        state.claim("a", [], tmp_path)
