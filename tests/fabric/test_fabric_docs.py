"""The reference pages say what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from shapes import make_fabric

from railkeeper.fabric import address
from railkeeper.fabric.faults import DIRECTIONS, RULES, parse_faults
from railkeeper.fabric.names import parse_name
from railkeeper.fabric.spec import (
    MAX_DOMAINS,
    MAX_LINKS,
    MAX_NICS_PER_T0,
    MAX_T0_PER_PLANE,
    MAX_T1_PER_PLANE,
    OpticsShape,
    Shape,
    parse_spec,
)
from railkeeper.telemetry.fabric_entities import port_end_id

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
SPEC = (REFERENCE / "fabric-spec.md").read_text(encoding="utf-8")
FAULTS = (REFERENCE / "fault-file.md").read_text(encoding="utf-8")
NAMES = (REFERENCE / "names-and-addresses.md").read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


def row(page: str, key: str) -> str:
    """The table row of a key."""
    return next(line for line in page.splitlines() if line.startswith(f"| `{key}` |"))


def test_the_spec_on_the_page_is_good_and_shows_every_key():
    (text,) = blocks(SPEC, "toml")

    spec = parse_spec(text)

    assert spec.fabric.model_fields_set == set(Shape.model_fields)
    assert spec.optics.model_fields_set == set(OpticsShape.model_fields)


@pytest.mark.parametrize("key", [*Shape.model_fields, *OpticsShape.model_fields])
def test_every_key_has_its_row_with_its_default(key):
    default = {**Shape.model_fields, **OpticsShape.model_fields}[key]
    said = "required" if default.is_required() else f"{default.default:g}" if key != "name" else default.default

    assert said in row(SPEC, key)


@pytest.mark.parametrize(
    ("key", "limit"),
    [
        ("t0_per_plane", MAX_T0_PER_PLANE), ("t1_per_plane", MAX_T1_PER_PLANE), ("nics_per_t0", MAX_NICS_PER_T0),
        ("rails", MAX_DOMAINS), ("planes", 8),
    ],
)  # fmt: skip
def test_limits_are_those_of_the_code(key, limit):
    assert f"1 to {limit:,}" in row(SPEC, key)


def test_the_limit_of_links_is_that_of_the_code():
    assert f"at most {MAX_LINKS:,} links" in SPEC


def test_the_faults_on_the_page_are_good():
    (text,) = blocks(FAULTS, "jsonl")

    assert parse_faults(make_fabric(optics=(2, 4)), text)


@pytest.mark.parametrize("kind", RULES)
def test_every_kind_of_fault_has_its_row_with_its_numbers(kind):
    text = row(FAULTS, kind)

    for number, (_, high) in RULES[kind].numbers.items():
        assert f"`{number}`" in text
        assert f"above 0, at most {high:,.0f}" in text


def test_directions_are_explained():
    assert all(f"`{d}`" in row(FAULTS, "direction") for d in DIRECTIONS)


def test_names_on_the_page_are_names():
    fabric = make_fabric(4, 8, 12, 4, optics=(2, 3))
    names = re.findall(r"^\| [^|]+ \| `([^`]+)` \|$", NAMES, re.MULTILINE)

    assert len(names) == 10
    for name in (n.replace("n12/nic0/p3--p3/t0-7", "n28/nic0/p3--p3/t0-7") for n in names):
        assert port_end_id(fabric, name) is not None if "@" in name else parse_name(fabric, name)


def test_address_ranges_are_those_of_the_code():
    ends = [address.T0_BASE, address.T1_BASE - 1, address.T1_BASE, address.NIC_BASE - 1, address.NIC_BASE, 0xFFFF]

    for low, high in zip(ends[::2], ends[1::2], strict=True):
        assert f"`{low:04x}` to `{high:04x}`" in NAMES
