"""The crew: processes in the nodes' namespaces, ended and restarted as faults want; and what their switches see."""

import os
import signal
import socket
import time
from pathlib import Path

import numpy as np
import pytest
from lab_packets import fault

from railkeeper.base.errors import OutsideError
from railkeeper.lab import names, state
from railkeeper.lab.crew import Crew
from railkeeper.lab.faults import Injector
from railkeeper.lab.switchread import SwitchReader
from railkeeper.telemetry.ports import DOWN, UNREAD, UP

pytestmark = pytest.mark.lab


def note_where(folder, node):
    """Target: leave a note of the namespace, then wait."""
    Path(folder, f"{node}").write_text(" ".join(sorted(name for _, name in socket.if_nameindex())))
    time.sleep(600)


def end_at_once():
    """Target: end."""


def fail_at_once():
    """Target: fail."""
    raise RuntimeError("a failure to be seen in the log")


def never_end():
    """Target: don't hear SIGTERM."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)


@pytest.fixture
def crew(lab, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    return Crew(lab, preload=[__name__], log=tmp_path / "log")


def wait_for(condition):
    deadline = time.monotonic() + 10
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


def test_processes_run_in_their_nodes(lab, crew, tmp_path):
    crew.start_many([("agent", node, note_where, (str(tmp_path), node)) for node in range(4)])

    for node in range(4):
        assert wait_for((tmp_path / str(node)).exists)
        assert wait_for(lambda node=node: "nic0p0 nic0p1" in (tmp_path / str(node)).read_text())
    assert sorted(crew.alive()) == [("agent", n) for n in range(4)]
    own = {Path(f"/proc/{pid}/ns/net").readlink() for pid in crew.alive().values()}
    assert len(own) == 4


def test_killed_ones_stay_away_and_ended_ones_are_revived(crew):
    crew.start("agent", 0, time.sleep, 600)
    crew.start("agent", 1, time.sleep, 600)
    crew.start("sender", 1, end_at_once)
    crew.kill("agent", 0)
    os.kill(crew.alive()["agent", 1], signal.SIGKILL)
    assert wait_for(lambda: crew.alive() == {})

    assert set(crew.revive()) == {("agent", 1), ("sender", 1)}
    assert ("agent", 1) in crew.alive()
    crew.restart("agent", 0)
    assert ("agent", 0) in crew.alive()
    assert crew.roles_of(1) == ("agent", "sender")


def test_starting_again_replaces(crew):
    crew.start("agent", 0, time.sleep, 600)
    first = crew.alive()["agent", 0]
    crew.start("agent", 0, time.sleep, 600)

    assert crew.alive()["agent", 0] != first
    assert state.start_time(first) is None


def test_a_failure_is_in_the_log(crew, tmp_path):
    crew.start("agent", 0, fail_at_once)

    assert wait_for(lambda: "a failure to be seen in the log" in (tmp_path / "log").read_text())
    assert wait_for(lambda: crew.alive() == {})


def test_stopping_ends_even_those_that_do_not_want_to(crew):
    crew.start("agent", 0, never_end)
    crew.start("sender", 0, time.sleep, 600)
    pids = list(crew.alive().values())
    crew.stop(grace_s=0.2)
    crew.stop()

    assert [state.start_time(pid) for pid in pids] == [None, None]
    assert crew.alive() == {}


def test_a_nursery_that_is_gone_is_said_in_words_and_takes_its_children_along(crew):
    crew.start("agent", 0, time.sleep, 600)
    pid = crew.alive()["agent", 0]
    os.kill(crew._process.pid, signal.SIGKILL)

    with pytest.raises(OutsideError, match="parent process has ended"):
        crew.start("agent", 1, time.sleep, 600)
    assert wait_for(lambda: state.start_time(pid) is None)


def test_a_preload_that_fails_is_said_in_words(lab, tmp_path):
    crew = Crew(lab, preload=["no_such_module"], log=tmp_path / "log")
    with pytest.raises(OutsideError, match="standard error says why"):
        crew.start("agent", 0, time.sleep, 600)

    assert wait_for(lambda: "no_such_module" in (tmp_path / "log").read_text())


def test_faults_of_agents_and_nodes_end_processes_and_clearing_brings_them_back(lab, crew):
    injector = Injector(lab, crew)
    for role in ("agent", "sender"):
        crew.start(role, 2, time.sleep, 600)
    injector.inject(fault(lab.fabric, kind="agent-down", target="n2"))
    assert list(crew.alive()) == [("sender", 2)]
    assert crew.revive() == ()
    injector.clear("f")
    assert len(crew.alive()) == 2
    injector.inject(fault(lab.fabric, kind="node-down", target="n2"))
    assert crew.alive() == {}
    injector.clear("f")

    assert len(crew.alive()) == 2


# -- what switches report ---------------------------------------------------------------------------
def test_switches_report_both_ends_of_their_links_and_nothing_of_nics(lab):
    states = SwitchReader(lab).read()
    f = lab.fabric

    assert (states.switch_answers == 1).all()
    assert (states.upper == UP).all()
    assert (states.lower[: f.n_ports] == UNREAD).all()
    assert (states.lower[f.n_ports :] == UP).all()


def test_a_downed_link_is_down_at_both_ends_and_counted(lab):
    reader, injector, f = SwitchReader(lab), Injector(lab), lab.fabric
    link = f.n_ports
    before = reader.read()
    injector.inject(fault(f, kind="down", target="p0/t0-0--p0/t1-0"))
    during = reader.read()
    injector.clear("f")
    assert lab.verify() == []
    after = reader.read()

    assert (during.lower[link], during.upper[link]) == (DOWN, DOWN)
    assert np.flatnonzero(during.upper == DOWN).tolist() == [link]
    assert (after.lower[link], after.upper[link]) == (UP, UP)
    assert after.upper_downs[link] > before.upper_downs[link]
    assert after.lower_downs[link] > before.lower_downs[link]


def test_a_rebooting_switch_does_not_answer_and_its_neighbours_see_their_ports_down(lab):
    reader, injector, f = SwitchReader(lab), Injector(lab), lab.fabric
    injector.inject(fault(f, kind="reboot", target="p0/t1-0", seconds=60))
    states = reader.read()
    links = [f.n_ports, f.n_ports + f.t1_per_plane]

    assert np.flatnonzero(states.switch_answers == 0).tolist() == [f.n_t0]
    assert [states.upper[x] for x in links] == [UNREAD, UNREAD]
    assert [states.lower[x] for x in links] == [DOWN, DOWN]


def test_black_holes_and_loss_show_on_no_port(lab):
    reader, injector, f = SwitchReader(lab), Injector(lab), lab.fabric
    injector.inject(fault(f, kind="blackhole", target="p0/t1-0"))
    injector.inject(fault(f, id="g", kind="loss", target="n0", rate=1.0))
    states = reader.read()

    assert (states.switch_answers == 1).all()
    assert (states.upper == UP).all()


def test_a_node_that_is_down_shows_at_its_switches(lab):
    reader, injector = SwitchReader(lab), Injector(lab)
    injector.inject(fault(lab.fabric, kind="node-down", target="n1"))

    assert np.flatnonzero(reader.read().upper == DOWN).tolist() == [2, 3]


def test_a_namespace_that_vanished_does_not_answer(lab):
    reader = SwitchReader(lab)
    reader._sockets[0].close()
    states = reader.read()

    assert states.switch_answers[0] == 0
    assert (states.switch_answers[1:] == 1).all()
    assert names.t0_ns(lab.fabric, lab.prefix, 0) == lab.plan.space_names[4]
