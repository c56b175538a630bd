"""Spec files: good ones, and what is said about bad ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railkeeper.base.errors import InputError
from railkeeper.fabric.model import Fabric
from railkeeper.fabric.spec import MAX_LINKS, FabricSpec, check_spec, parse_spec, read_spec

GOOD = {"planes": 2, "t0_per_plane": 4, "t1_per_plane": 4, "nics_per_t0": 4}


def toml(top: str = "", optics: str = "", **changes) -> str:
    """The text of a spec with fields changed (None leaves one out)."""
    fields = {**GOOD, **changes}
    lines = [f"{key} = {value}" for key, value in fields.items() if value is not None]
    return "\n".join([top, "[fabric]", *lines, *([f"[optics]\n{optics}"] if optics else [])])


def test_defaults_are_those_of_the_contract():
    spec = parse_spec(toml()).fabric

    assert (spec.nics_per_node, spec.rails, spec.link_gbps) == (1, 1, 100)
    assert parse_spec(toml()).optics is None


def test_whole_numbers_are_speeds_too():
    assert parse_spec(toml(link_gbps=400)).fabric.link_gbps == 400.0


@pytest.mark.parametrize(
    ("text", "field", "problem", "right"),
    [
        ("", "fabric", "is missing", "must be given"),
        ("planes = 2", "planes", "not a known key", "known keys: fabric, optics"),
        ("fabric = 3", "fabric", "is 3", "table: [fabric]"),
        ("[[fabric]]\nplanes = 1", "fabric", "is [{'planes': 1}]", "table: [fabric]"),
        (toml(planes=None), "fabric.planes", "is missing", "must be given"),
        (toml(nics_per_t0=None), "fabric.nics_per_t0", "is missing", "must be given"),
        (toml(planes=None, plane=2), "fabric.plane", "not a known key", "planes, rails"),
        (toml(planes=0), "fabric.planes", "is 0", "greater than or equal to 1"),
        (toml(planes=9), "fabric.planes", "is 9", "less than or equal to 8"),
        (toml(planes="true"), "fabric.planes", "is True", "integer"),
        (toml(planes="2.0"), "fabric.planes", "is 2.0", "integer"),
        (toml(planes="'2'"), "fabric.planes", "is '2'", "integer"),
        (toml(planes="0x" + "f" * 9000), "fabric.planes", "a huge number", "less than or equal to 8"),
        (toml(t0_per_plane=0x7F01), "fabric.t0_per_plane", "is 32513", "32512"),
        (toml(t1_per_plane=0x6001), "fabric.t1_per_plane", "is 24577", "24576"),
        (toml(nics_per_t0=0x2001), "fabric.nics_per_t0", "is 8193", "8192"),
        (toml(nics_per_node=0), "fabric.nics_per_node", "is 0", "greater than or equal to 1"),
        (toml(link_gbps=0), "fabric.link_gbps", "is 0", "greater than 0"),
        (toml(link_gbps="nan"), "fabric.link_gbps", "is nan", "100000"),
        (toml(link_gbps="inf"), "fabric.link_gbps", "is inf", "100000"),
        (toml(link_gbps="'100'"), "fabric.link_gbps", "is '100'", "number"),
        (toml(link_gbps="true"), "fabric.link_gbps", "is True", "number"),
        (toml(name="''"), "fabric.name", "is ''", "at least 1"),
        (toml(name="'a b'"), "fabric.name", "is 'a b'", "pattern"),
        (toml(name="'" + "x" * 999 + "'"), "fabric.name", "x…", "at most 64"),
        (toml(t2_per_plane=4), "fabric.t2_per_plane", "not a known key", "t0_per_plane, t1_per_plane"),
        (toml("extra = 1"), "extra", "not a known key", "known keys: fabric, optics"),
        (toml(nics_per_node=3), "fabric.nics_per_node", "does not divide the 16 NICs", "divisor"),
        (toml(rails=2), "fabric.rails", "is 2 while fabric.nics_per_node is 1", "both the same number"),
        (toml(rails=0), "fabric.rails", "is 0", "greater than or equal to 1"),
        (toml(planes=8, rails=9, nics_per_node=9), "fabric.rails", "is 72", "at most 64"),
        (toml(planes=8, t0_per_plane=0x7F00, t1_per_plane=0x6000), "fabric.t0_per_plane", "links", f"{MAX_LINKS:,}"),
        (toml(optics="nic_ports_per_optic = 3"), "optics.nic_ports_per_optic", "is 3", "at most 2"),
        (toml(optics="t0_ports_per_optic = 9"), "optics.t0_ports_per_optic", "is 9", "at most 8"),
        (toml(optics="t0_ports_per_optic = 0"), "optics.t0_ports_per_optic", "is 0", "greater than or equal to 1"),
        (toml(optics="t1_ports_per_optic = 1"), "optics.t1_ports_per_optic", "not a known key", "t0_ports_per_optic"),
    ],
)
def test_a_bad_field_is_named_with_what_would_be_right(text, field, problem, right):
    with pytest.raises(InputError) as e:
        parse_spec(text, where="my.toml")

    assert e.value.where == f"my.toml: {field}"
    assert problem in e.value.problem
    assert right in e.value.right


@pytest.mark.parametrize("text", ["[fabric", "a = ", "a = 1\na = 2", "a = " + "[" * 99_999, "a = " + "9" * 9_999, "\0"])
def test_what_is_no_toml(text):
    with pytest.raises(InputError) as e:
        parse_spec(text, where="my.toml")

    assert e.value.where == "my.toml"
    assert "is not TOML" in e.value.problem
    assert "fabric-spec.md" in e.value.right


def test_files_that_can_not_be_read(tmp_path):
    (tmp_path / "latin.toml").write_bytes(b"[fabric]\nname = '\xe9'")
    for path, problem in [
        (tmp_path / "absent.toml", "No such file"),
        (tmp_path, "Is a directory"),
        (tmp_path / "latin.toml", "UTF-8"),
    ]:
        with pytest.raises(InputError, match=problem) as e:
            read_spec(path)
        assert e.value.where == str(path)


def test_a_file_is_read_as_its_text(tmp_path):
    (tmp_path / "a.toml").write_text(toml())

    assert read_spec(tmp_path / "a.toml") == parse_spec(toml())


KEYS = st.sampled_from([*GOOD, "name", "rails", "nics_per_node", "link_gbps", "nic_ports_per_optic", "odd"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.integers(1, 4) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)


@given(
    st.fixed_dictionaries({}, optional={"fabric": VALUES, "optics": VALUES, "more": VALUES})
    | st.builds(lambda f, o: {"fabric": {**GOOD, **f}, "optics": o}, st.dictionaries(KEYS, VALUES), VALUES)
)
def test_any_data_is_a_spec_or_an_input_error(data):
    try:
        spec = check_spec(data)
    except InputError:
        return
    assert isinstance(spec, FabricSpec)
    assert Fabric(spec).n_links <= MAX_LINKS


LINES = st.lists(
    st.sampled_from(["[fabric]", "[optics]", "[[fabric]]", "fabric = {", "}", "planes = ", "1", "-1", "'", '"""', "=", ".", "1979-99-99", "# "])
    | st.text(max_size=6),
    max_size=8,
).map("\n".join)  # fmt: skip


@given(LINES | st.text(max_size=60))
def test_any_text_is_a_spec_or_an_input_error(text):
    try:
        parse_spec(text)
    except InputError as e:
        assert e.where.startswith("spec")  # noqa: PT017
