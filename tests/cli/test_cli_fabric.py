"""`railkeeper fabric ...` and `railkeeper --version`, as a user types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from railkeeper import __version__
from railkeeper.cli.errors import run
from railkeeper.cli.main import app

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL, RAILS = str(EXAMPLES / "small.toml"), str(EXAMPLES / "rails.toml")


def answer(capsys, *args: str) -> dict:
    assert run(app, [*args, "--json"]) == 0
    out, err = capsys.readouterr()
    assert not err
    return json.loads(out)


def shown(capsys, *args: str) -> str:
    assert run(app, list(args)) == 0
    out, err = capsys.readouterr()
    assert not err
    return out


def test_version(capsys):
    assert shown(capsys, "--version") == f"{__version__}\n"


def test_build(capsys):
    data = answer(capsys, "fabric", "build", SMALL)

    assert list(data) == [
        "schema", "nodes", "nics", "nic_ports", "t0", "t1", "links_nic_t0", "links_t0_t1", "paths_per_nic_pair",
        "build_s", "peak_rss_bytes",
    ]  # fmt: skip
    assert [data[key] for key in list(data)[:9]] == [1, 16, 16, 32, 8, 8, 32, 32, 8]
    assert data["build_s"] > 0
    assert data["peak_rss_bytes"] > 1e6


def test_build_for_people(capsys):
    text = shown(capsys, "fabric", "build", SMALL)

    assert "Fabric small" in text
    assert "nic ports" in text


@pytest.mark.parametrize(
    ("spec", "parts"),
    [
        (SMALL, ["2 planes x (4 T0 + 4 T1)", "16 with 1 NIC", "fcbb::/32 (p0) to fcbb:1::/32 (p1)", "2 NIC ports share"]),
        (RAILS, ["in each of 2 rails", "r0p0", "r1p1", "1.33:1 oversubscribed"]),
        (str(EXAMPLES / "largest.toml"), ["131,072", "6,144", "2,097,152", "2,048 between NICs"]),
    ],
)  # fmt: skip
def test_show(spec, parts, capsys):
    text = shown(capsys, "fabric", "show", spec)

    assert [p for p in parts if p not in text] == []


def test_blast(capsys):
    data = answer(capsys, "fabric", "blast", SMALL, "p0/t0-1")

    assert data == {
        "schema": 1, "target": "p0/t0-1", "links": 8, "nics_hit": ["n4/nic0", "n5/nic0", "n6/nic0", "n7/nic0"],
        "nics_cut": [], "nic_share": 0.5, "nic_gbps": 400.0, "uplink_gbps": 400.0, "t0_uplink_share": 1.0,
        "plane_uplink_share": {"p0": 0.25}, "paths_per_nic_pair": 8, "paths_lost": 4, "paths_lost_local": 1,
    }  # fmt: skip


def test_blast_for_people(capsys):
    text = shown(capsys, "fabric", "blast", SMALL, "p0/t0-1")

    assert "4: n4/nic0" in text
    assert "up to 4 of 8 between NICs under different T0s" in text


@pytest.mark.parametrize(
    ("args", "kind", "outer", "links"),
    [
        (["--dst", "n5/nic0", "--plane", "1", "--t1", "2"], "oneway", "fcbb:1:100:8002:101:e001::", 4),
        (["--dst", "n1/nic0"], "oneway", "fcbb:0:100:e001::", 2),
        (["--plane", "1"], "t0-bounce", "fcbb:1:100:e000::", 2),
        (["--t1", "3"], "t1-bounce", "fcbb:0:100:8003:100:e000::", 4),
    ],
)
def test_address(args, kind, outer, links, capsys):
    data = answer(capsys, "fabric", "address", SMALL, "--src", "n0/nic0", *args)

    assert (data["kind"], data["address"]) == (kind, outer)
    assert len(data["links"]) == links
    assert data["links"][0].startswith("n0/nic0/p")
    assert data["links"][0].endswith(" up")
    assert outer in shown(capsys, "fabric", "address", SMALL, "--src", "n0/nic0", *args)


@pytest.mark.parametrize(
    ("args", "where", "right"),
    [
        (["build", "absent.toml"], "absent.toml", "give the path of a fabric spec"),
        (["show", "absent.toml"], "absent.toml", "give the path of a fabric spec"),
        (["blast", SMALL, "p0/t0-9"], "NAME", "0 to 3"),
        (["blast", SMALL, "leaf"], "NAME", "n12"),
        (["address", SMALL, "--src", "n0"], "--src", "e.g. n0/nic0"),
        (["address", SMALL, "--src", "n99/nic0"], "--src", "0 to 15"),
        (["address", SMALL, "--src", "n0/nic0", "--dst", "p0/t0-0"], "--dst", "e.g. n0/nic0"),
        (["address", SMALL, "--src", "n0/nic0", "--plane", "2"], "--plane", "0 to 1"),
        (["address", SMALL, "--src", "n0/nic0", "--plane", "-1"], "--plane", "0 to 1"),
        (["address", SMALL, "--src", "n0/nic0", "--t1", "4"], "--t1", "0 to 3"),
        (["address", SMALL, "--src", "n0/nic0", "--dst", "n4/nic0"], "--t1", "different T0s"),
        (["address", RAILS, "--src", "n0/nic0", "--dst", "n0/nic1"], "--dst", "rails are not connected"),
    ],
)
def test_bad_arguments(args, where, right, capsys):
    assert run(app, ["fabric", *args]) == 2

    out, err = capsys.readouterr()
    assert not out
    assert err.startswith(f"railkeeper: {where}: ")
    assert right in err
