"""The live view: what it shows of a state, and that it can be drawn for fabrics of every size."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from synthetic_world import SynthWorld, event, make_fabric

from railkeeper.app.keeper import Keeper
from railkeeper.app.pipeline import Outcome, Setup, begin
from railkeeper.app.snapshot import Line, LinkLook
from railkeeper.app.view import MAX_LINES, link_looks, snapshot
from railkeeper.console.live import MAX_CELLS, render
from railkeeper.fabric.model import Fabric
from railkeeper.fabric.spec import read_spec
from railkeeper.respond.guardrails import Limits
from railkeeper.respond.incidents import IncidentStatus

EXAMPLES = Path(__file__).parents[2] / "examples"
FABRIC = make_fabric()


def state_of(faults, *, ticks=20, limits=None, **more):
    """Run a keeper; return its setup, last state and last outcome."""
    setup = Setup(FABRIC, "lab", limits=limits or Limits(dry_run=False))
    keeper, kept = (
        Keeper(setup, SynthWorld(FABRIC, [event(FABRIC, *f[:2], **f[2]) for f in faults], ticks=ticks, **more)),
        [],
    )
    keeper.run(lambda state, outcome: bool(kept.append((state, outcome)) or True))
    return setup, *kept[-1]


def drawn(fabric, shot, width=120):
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=False).print(render(fabric, shot))
    return out.getvalue()


BLACKHOLE = (4, 99, {"kind": "blackhole", "target": "p1/t1-1"})
LOSS = (4, 99, {"kind": "loss", "target": "p0/t0-1--p0/t1-2", "rate": 0.2})


def test_links_look_as_they_are():
    setup, state, outcome = state_of([BLACKHOLE, LOSS])
    looks = link_looks(FABRIC, state, outcome)
    failed = [int(FABRIC.fabric_link(t0, 1)) for t0 in (2, 3)]

    assert np.flatnonzero(looks == LinkLook.FAILED).tolist() == failed
    assert np.flatnonzero(looks == LinkLook.DEGRADED).tolist() == [int(FABRIC.fabric_link(1, 2))]
    assert (looks != LinkLook.NO_DATA).all()
    shot = snapshot(setup, state, outcome, ("a note",))
    assert shot.agents == (4, 4)
    assert shot.denied_links == 6
    assert shot.traffic_loss == 0.0
    assert shot.goodput_bps > 0
    text = drawn(FABRIC, shot)
    for word in ("p1/t1-1", "blackhole", "p0/t0-1--p0/t1-2", "█", "▒", "▶ a note", "agents 4/4", "loss 0.000%"):
        assert word in text


def test_no_data_is_not_health():
    setup, state, outcome = state_of([(4, 99, {"kind": "agent-down", "target": "n3"})])
    looks = link_looks(FABRIC, state, outcome)

    assert (looks[FABRIC.port_link(3, np.arange(2))] == LinkLook.NO_DATA).all()
    assert not (looks >= LinkLook.DEGRADED).any()
    assert snapshot(setup, state, outcome).agents == (3, 4)
    assert "agents 3/4" in drawn(FABRIC, snapshot(setup, state, outcome))


def test_denied_links_without_fault_show_as_denied():
    _, state, outcome = state_of([LOSS])
    looks = link_looks(FABRIC, state, replace(outcome, faults=()))

    assert np.flatnonzero(looks == LinkLook.DENIED).tolist() == [int(FABRIC.fabric_link(1, 2))]


def test_open_incidents_are_shown_before_closed_ones():
    setup, state, outcome = state_of([LOSS])
    one = state.response.incidents["inc-1"]
    many = {
        f"inc-{n}": replace(one, id=f"inc-{n}", status=IncidentStatus.OPEN if n in {1, 2} else IncidentStatus.CLOSED)
        for n in range(1, 12)
    }
    state = replace(state, response=replace(state.response, incidents=many))
    shown = [line.cells[0] for line in snapshot(setup, state, outcome).incidents]

    assert shown == ["inc-8", "inc-9", "inc-10", "inc-11", "inc-1", "inc-2"]
    many |= {f"inc-{n}": replace(one, id=f"inc-{n}") for n in range(20, 30)}
    state = replace(state, response=replace(state.response, incidents=many))
    shown = [line.cells[0] for line in snapshot(setup, state, outcome).incidents]
    assert shown == [f"inc-{n}" for n in range(24, 30)]
    assert len(shown) == MAX_LINES


def test_an_action_tells_why():
    setup, state, outcome = state_of([LOSS], ticks=30)
    assert snapshot(setup, state, outcome).actions[0].cells[3].startswith("helped: the traffic lost")
    setup, state, outcome = state_of([LOSS], limits=Limits())
    (line,) = snapshot(setup, state, outcome).actions
    assert line == Line(("deny 2 directed link(s)", "p0/t0-1--p0/t1-2", "dry-run", "dry run is on: nothing is applied"))


def test_before_the_first_report_all_is_unknown():
    setup = Setup(FABRIC, "live")
    world = SynthWorld(FABRIC)
    given = replace(world.next_tick(), reports=(), flows=(), ports=None)
    keeper = Keeper(setup, world)
    outcome = keeper.answer(given)
    shot = snapshot(setup, keeper.state, outcome)

    assert (shot.links == LinkLook.NO_DATA).all()
    assert (shot.traffic_loss, shot.goodput_bps, shot.agents) == (None, None, (0, 4))
    assert "agents 0/4" in drawn(FABRIC, shot)
    assert "traffic" not in drawn(FABRIC, shot)


@pytest.mark.parametrize("name", ["small", "rails", "largest"])
@pytest.mark.parametrize("width", [60, 200])
def test_every_fabric_can_be_drawn(name, width):
    fabric = Fabric(read_spec(EXAMPLES / f"{name}.toml"))
    setup = Setup(fabric, "lab")
    quiet = Keeper(Setup(FABRIC, "lab"), SynthWorld(FABRIC))
    outcome = replace(quiet.answer(replace(SynthWorld(FABRIC).next_tick(), reports=())), faults=(), silent=())
    # A locator of the largest fabric takes long to make, and the view does not look at it.
    state = replace(quiet.state, response=begin(Setup(FABRIC, "lab")).response)
    shot = snapshot(setup, state, Outcome(**vars(outcome)))
    looks = np.zeros(fabric.n_links, dtype=np.int8)
    looks[-1] = LinkLook.FAILED
    text = drawn(fabric, replace(shot, links=looks), width)

    assert len(shot.links) == fabric.n_links
    assert "█" in text if fabric.n_domains <= 8 else "plane" in text
    assert max(map(len, text.splitlines())) <= width
    assert width < 80 or len(text.splitlines()) < 9 * (MAX_CELLS + 6)
