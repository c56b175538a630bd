"""Fault files: good lines, and what is said about bad ones."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shapes import make_fabric

from railkeeper.base.errors import InputError
from railkeeper.fabric.faults import DIRECTIONS, KINDS, RULES, InjectedFault, parse_faults, read_faults
from railkeeper.fabric.names import Component, Kind

FABRIC = make_fabric(optics=(2, 4))


def line(**fields) -> str:
    """A fault line: a `down` of p0/t1-0 with fields changed (None leaves one out)."""
    whole = {"id": "f1", "kind": "down", "target": "p0/t1-0", **fields}
    return json.dumps({key: value for key, value in whole.items() if value is not None})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (line(), {"kind": "down", "direction": "both", "group": ""}),
        (line(kind="loss", rate=0.01, direction="up"), {"rate": 0.01, "direction": "up"}),
        (line(kind="loss", rate=1), {"rate": 1.0}),
        (line(kind="corrupt", rate=0.5), {"rate": 0.5}),
        (line(kind="slow", gbps=25), {"gbps": 25.0}),
        (line(kind="delay", ms=3, direction="down"), {"ms": 3.0}),
        (line(kind="flap", down_s=1, up_s=2.5), {"down_s": 1.0, "up_s": 2.5}),
        (line(kind="blackhole"), {"kind": "blackhole"}),
        (line(kind="reboot", seconds=10), {"seconds": 10.0}),
        (line(kind="optic", target="n3/nic0/optic0", seconds=2), {"target": Component(Kind.NIC_OPTIC, 3)}),
        (line(kind="optic", target="p1/t0-3/optic1", seconds=2), {"target": Component(Kind.T0_OPTIC, 15)}),
        (line(kind="agent-down", target="n3"), {"target": Component(Kind.NODE, 3)}),
        (line(kind="node-down", target="n3", group="g1"), {"group": "g1"}),
        (line(target="n0/nic0/p0--p0/t0-0"), {"target": Component(Kind.LINK, 0)}),
    ],
)
def test_good_lines(text, expected):
    (fault,) = parse_faults(FABRIC, text)

    assert {key: getattr(fault, key) for key in expected} == expected


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_what_strikes_a_whole_part_has_no_direction(kind, direction):
    numbers = dict.fromkeys(RULES[kind].numbers, 1.0)
    target = {"blackhole": "p0/t1-0", "reboot": "p0/t0-0", "optic": "n3/nic0/optic0"}.get(kind, "n3")
    (fault,) = parse_faults(FABRIC, line(kind=kind, target=target, direction=direction, **numbers))
    whole = kind in {"blackhole", "reboot", "optic", "agent-down", "node-down"}

    assert fault.direction == ("both" if whole else direction)


def test_every_kind_has_a_good_line_above():
    marks = [m for m in test_good_lines.pytestmark if m.name == "parametrize"]

    assert {json.loads(text)["kind"] for text, _ in marks[0].args[1]} == set(KINDS)


def test_empty_lines_and_windows_line_ends_are_allowed():
    faults = parse_faults(FABRIC, f"\n{line()}\r\n\n{line(id='f2')}\n")

    assert [f.id for f in faults] == ["f1", "f2"]


def test_a_line_ends_at_a_newline_only():
    (fault,) = parse_faults(FABRIC, '{"id":"a\u2028b","kind":"down","target":"n0"}')

    assert fault.id == "a\u2028b"


@pytest.mark.parametrize(
    ("text", "field", "problem", "right"),
    [
        ("{", "", "is not JSON", "e.g. {"),
        ("[" * 99_999, "", "is not JSON", "e.g. {"),
        ("9" * 9_999, "", "is not JSON", "e.g. {"),
        ("[]", "", "is a list", "one JSON object a line"),
        ('"down"', "", "is a str", "one JSON object a line"),
        ("{}", "kind", "is None", "loss, corrupt"),
        (line(kind="melt"), "kind", "is 'melt'", ", ".join(KINDS)),
        (line(kind=["down"]), "kind", "is ['down']", "down"),
        (line(id=None), "id", "is missing", "must be given"),
        (line(id=""), "id", "is ''", "a text"),
        (line(id=7), "id", "is 7", "a text"),
        (line(target=None), "target", "is missing", "must be given"),
        (line(target="p0/t1-4"), "target", "t1 4 does not exist", "0 to 3"),
        (line(target="spine"), "target", "is not a component name", "p3/t1-11"),
        (line(direction="left"), "direction", "is 'left'", ", ".join(DIRECTIONS)),
        (line(direction=[]), "direction", "is []", ", ".join(DIRECTIONS)),
        (line(group=3), "group", "is 3", "a text"),
        (line(rate=0.1), "rate", "is not a field of 'down'", "known fields: direction, group, id"),
        (line(kind="loss"), "rate", "is missing", "a number above 0, at most 1"),
        (line(kind="loss", rate=0), "rate", "is 0", "above 0, at most 1"),
        (line(kind="loss", rate=1.01), "rate", "is 1.01", "above 0, at most 1"),
        (line(kind="loss", rate="1%"), "rate", "is '1%'", "above 0, at most 1"),
        (line(kind="loss", rate=True), "rate", "is True", "above 0, at most 1"),
        (line(kind="loss", rate=float("nan")), "rate", "is nan", "above 0, at most 1"),
        (line(kind="loss", rate=float("inf")), "rate", "is inf", "above 0, at most 1"),
        (line(kind="corrupt", rate=-1), "rate", "is -1", "above 0, at most 1"),
        (line(kind="slow", gbps=0), "gbps", "is 0", "above 0"),
        (line(kind="delay", ms=10_001), "ms", "is 10001", "at most 10000"),
        (line(kind="flap", down_s=1), "up_s", "is missing", "at most 3600"),
        (line(kind="flap", down_s=0, up_s=1), "down_s", "is 0", "at most 3600"),
        (line(kind="reboot", seconds=-1), "seconds", "is -1", "at most 3600"),
        (line(kind="blackhole", target="n0"), "target", "can't have a 'blackhole'", "its target is a t0, t1"),
        (line(kind="reboot", seconds=1, target="n0/nic0"), "target", "can't have", "t0, t1"),
        (line(kind="optic", seconds=1), "target", "can't have a 'optic'", "nic optic, t0 optic"),
        (line(kind="agent-down"), "target", "can't have", "its target is a node"),
        (line(kind="node-down", target="n0/nic0"), "target", "can't have", "its target is a node"),
    ],
)
def test_a_bad_line_is_named_with_its_field_and_what_would_be_right(text, field, problem, right):
    with pytest.raises(InputError) as e:
        parse_faults(FABRIC, f"{line(id='first')}\n{text}", where="my.jsonl")

    assert e.value.where == (f"my.jsonl:2: {field}" if field else "my.jsonl:2")
    assert problem in e.value.problem
    assert right in e.value.right


def test_ids_are_not_used_twice():
    with pytest.raises(InputError, match="there twice") as e:
        parse_faults(FABRIC, f"{line()}\n{line()}")

    assert e.value.where == "faults:2: id"


def test_files(tmp_path):
    path = tmp_path / "faults.jsonl"
    path.write_text(line())

    assert read_faults(FABRIC, path) == parse_faults(FABRIC, line())
    path.write_bytes(b"\xff")
    for bad, problem in [(path, "UTF-8"), (tmp_path, "directory"), (tmp_path / "absent", "No such file")]:
        with pytest.raises(InputError, match=problem) as e:
            read_faults(FABRIC, bad)
        assert e.value.where == str(bad)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from([*KINDS, *DIRECTIONS, "n0", "p0/t0-0"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
FIELDS = ["id", "kind", "target", "direction", "group", "rate", "gbps", "ms", "down_s", "up_s", "seconds", "odd"]


@given(st.dictionaries(st.sampled_from(FIELDS), VALUES).map(json.dumps) | st.text(max_size=40))
def test_any_text_is_faults_or_an_input_error(text):
    try:
        faults = parse_faults(FABRIC, text)
    except InputError:
        return
    assert all(isinstance(f, InjectedFault) for f in faults)


@given(st.data())
def test_what_is_in_range_is_read_and_kept(data):
    kind = data.draw(st.sampled_from(KINDS))
    target = "n1" if kind in ("agent-down", "node-down") else "p0/t0-1/optic0" if kind == "optic" else "p0/t0-1"
    numbers = {
        key: data.draw(st.floats(low, high, exclude_min=True)) for key, (low, high) in RULES[kind].numbers.items()
    }

    (fault,) = parse_faults(FABRIC, line(kind=kind, target=target, **numbers))

    assert {key: getattr(fault, key) for key in numbers} == numbers
    assert fault.target_name == target
