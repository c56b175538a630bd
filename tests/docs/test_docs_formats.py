"""The page of formats has every field that is written, and no others."""

from __future__ import annotations

import dataclasses
import re

import msgpack
import numpy as np
import pytest
from pages import anchors, read, section

from railkeeper.app import history_tables, inputs, recording
from railkeeper.app.drill import Drill, Episode, answer
from railkeeper.app.events import (
    TickFacts,
    detector_event,
    ended_event,
    fault_event,
    fault_view,
    finding_events,
    level_event,
    tick_event,
)
from railkeeper.app.inputs import TickInput, encode_input
from railkeeper.app.pipeline import Setup, begin, step
from railkeeper.app.traffic import TrafficTick
from railkeeper.cli import errors
from railkeeper.fabric.faults import parse_fault
from railkeeper.fabric.model import Fabric
from railkeeper.fabric.paths import PathKind, make_paths
from railkeeper.fabric.spec import check_spec
from railkeeper.health.detect.finding import Finding
from railkeeper.health.fault import AGREE, ALONE, CLEAN, DISAGREE, Fault
from railkeeper.health.slo.objectives import DEFAULT_SLOS, level
from railkeeper.health.slo.series import Series
from railkeeper.health.synth import Event, World
from railkeeper.lab.traffic import flowstats
from railkeeper.probe import pathstats
from railkeeper.probe.pathstats import TickReport, empty_stats, encode_report
from railkeeper.respond import journal_tables
from railkeeper.respond.actions import ActionStatus
from railkeeper.respond.guardrails import Limits
from railkeeper.respond.incidents import IncidentStatus, Severity
from railkeeper.respond.responder import ResponseState
from railkeeper.respond.verify import Outcome, Traffic, verify

PAGE = read("docs/reference/formats.md")
FABRIC = Fabric(check_spec({"fabric": {"planes": 2, "t0_per_plane": 2, "t1_per_plane": 2, "nics_per_t0": 2}}))
COMMON = {"schema", "t", "type"}


def tables(text):
    """For each table of a text, the names in its first column."""
    found = re.findall(r"((?:^\|.*\n)+)", text, re.MULTILINE)
    return [
        {name for line in table.splitlines()[2:] for name in re.findall(r"`([^`]+)`", line.split("|")[1])}
        for table in found
    ]


def names_in(heading):
    return set().union(*tables(section(PAGE, heading)))


def cell(heading, name):
    """The last cell of the row that begins with a name."""
    row = next(x for x in section(PAGE, heading).splitlines() if x.startswith(f"| `{name}`"))
    return set(re.findall(r"`([^`]+)`", row.rsplit("|", 2)[1]))


def reports(seen):
    """What each agent would have said of a tick; one-way rows, which two agents share, are left out."""
    source = FABRIC.node_of(seen.stats.paths.src)
    own = seen.stats.paths.kind != PathKind.ONEWAY
    return tuple(
        TickReport(n, seen.tick, 0.5, seen.stats.take((source == n) & own)) for n in range(1, FABRIC.n_nodes)
    )  # fmt: skip


@pytest.fixture(scope="module")
def events():
    """All lines of a keeper that meets a black hole, and never hears the agent of n0."""
    fault = parse_fault(FABRIC, {"id": "x", "kind": "blackhole", "target": "p0/t1-1"}, where="test")
    world = World(FABRIC, [Event(fault, 3.0)])
    setup = Setup(FABRIC, "test", limits=Limits(dry_run=False))
    state, lines = begin(setup), []
    for tick in range(24):
        seen = world.tick(tick)
        state, outcome = step(setup, state, TickInput(tick, reports(seen), ports=seen.ports))
        lines += outcome.events
    return lines


# What this keeper has no occasion to tell: no source, no minute.
FINDING = Finding("x", "port", 3, "degraded", "rx_errors", 2.0, 1.0, "per second", "peers", 1.0, 0.9)
COUNTED = Fault(
    "k", "p0/t1-1", "corrupt", "up", 0, "open", 0.9, 0.0, 0.0, 0.0, 0.0, 0.0, (), ("up",), (), (), True, (), ALONE,
)  # fmt: skip
TOLD = (
    fault_event(1.0, COUNTED),
    detector_event(1, 1.0, FINDING, str),
    ended_event(1, 1.0, FINDING, str),
    level_event(1.0, level(DEFAULT_SLOS[0], "fabric", Series(), 1.0)),
)


@pytest.mark.parametrize("kind", ["tick", "finding", "slo", "fault", "impact", "incident", "action"])
def test_events_have_the_fields_of_the_page(events, kind):
    found = [e for e in (*events, *TOLD) if e["type"] == kind]

    assert found, kind
    assert {k for e in found for k in e} - COMMON == names_in(f"`{kind}`")


def test_the_page_knows_every_event_and_their_order(events):
    order = re.search(r"lines come in this order: (.*)\.", PAGE)[1]

    written = re.findall(r"`(\w+)`", order)

    assert {e["type"] for e in (*events, *TOLD)} == set(written)
    places = [(e["t"], written.index(e["type"])) for e in events]
    assert places == sorted(places)


def test_traffic_in_a_tick():
    stats = empty_stats(make_paths(0, [0], [0]))
    facts = TickFacts(1, 0.5, stats, 1, (2,), (), 0, TrafficTick(1, 1, 1, 0, 0, 0, 0.0, {}, {}), (2,))

    assert set(tick_event(facts)["traffic"]) == cell("`tick`", "traffic")
    assert finding_events(facts)[0]["verdict"] in cell("`finding`", "verdict")


def test_words_of_statuses():
    assert cell("`action`", "status") == {str(s) for s in ActionStatus}
    assert cell("`incident`", "status") == {str(s) for s in IncidentStatus}
    assert cell("`impact`", "severity") == {str(s) for s in Severity}
    assert cell("`action`", "verification") == set(verify(Traffic(), Traffic()).to_dict())
    assert all(f"`{o}`" in PAGE for o in Outcome)


def test_the_drill_answer():
    fault = parse_fault(FABRIC, {"id": "x", "kind": "down", "target": "p0/t1-1"}, where="test")
    drill = Drill(FABRIC, None, [(fault,)], episodes=[Episode((fault,))])
    said = answer(drill)

    assert {"schema", *said} == names_in("Drill answer")
    assert set(said["results"][0]) == names_in("Result of a drill")


def test_a_located_fault_of_a_drill_has_no_evidence():
    values = {f.name: () if "tuple" in str(f.type) else 0 for f in dataclasses.fields(Fault)}

    said = set(fault_view(Fault(**{**values, "counters": AGREE})))
    assert said == names_in("`fault`") - {"evidence"}
    assert set(fault_view(Fault(**values))) == said - {"counters"}
    assert cell("`fault`", "counters") == {AGREE, ALONE, CLEAN, DISAGREE}


def test_tick_reports():
    report = TickReport(0, 1, 0.5, empty_stats(make_paths(0, [0], [0])))
    said = msgpack.unpackb(encode_report(report))

    assert set(said) == names_in("Tick report")
    assert set(said["columns"]) == names_in("Columns of PathStats")


def test_flow_reports():
    none = np.zeros(0, dtype=np.int64)
    empty = flowstats.FlowStats(make_paths([], [], []), *[none] * 7)
    said = msgpack.unpackb(flowstats.encode_flows(flowstats.FlowReport(0, 1, 0.5, empty)))
    fields, columns = tables(section(PAGE, "Flow report"))

    assert set(said) == fields
    assert {c for c in said["columns"] if not c.startswith("path_")} == columns


def test_recordings():
    begun = recording.Start(Setup(FABRIC, "lab"), ResponseState(), Series())
    header = msgpack.unpackb(recording.pack_start(begun))
    tick = msgpack.unpackb(encode_input(TickInput(1, ())))

    assert cell("Recording", "header") == set(header)
    assert cell("Recording", "input") == set(tick)


def test_tables_of_the_history():
    found = dict(
        zip(
            ["paths", "reports", "events", "slis", "sli_hours", "messages"],
            tables(section(PAGE, "History")),
            strict=True,
        )
    )

    assert found == {name: set(schema.names) for name, schema in history_tables.SCHEMAS.items()}


def test_tables_of_the_journal():
    text = section(PAGE, "Journal")
    found = dict(zip(re.findall(r"^`(\w+)`:", text, re.MULTILINE), tables(text), strict=True))

    assert found == {name: {c.name for c in t.columns} for name, t in journal_tables.metadata.tables.items()}


def test_schema_numbers():
    numbers = re.findall(r"^\| [^|`]+ \| (\d+) \|$", PAGE, re.MULTILINE)

    assert [int(n) for n in numbers] == [
        errors.SCHEMA, pathstats.SCHEMA, flowstats.SCHEMA, recording.SCHEMA, journal_tables.SCHEMA,
    ]  # fmt: skip
    assert inputs.SCHEMA == recording.SCHEMA


def test_messages_name_what_the_collector_takes():
    assert {"hello", "tick", "flows", "denied", "ack", "deny", "probe"} == set(
        re.findall(
            r"^\| (?:peer|agent|sender|keeper) \| `(\w+)` \|",
            section(PAGE, "Messages between keeper and peers"),
            re.MULTILINE,
        )
    )
    assert "messages-between-keeper-and-peers" in anchors(PAGE)
