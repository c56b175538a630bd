"""`railkeeper host` on a captured tree and on this machine."""

from __future__ import annotations

import json

from railkeeper.cli.errors import run
from railkeeper.cli.main import app


def files(root, tree):
    for path, text in tree.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(f"{text}\n")


def said(capsys, *args: str) -> str:
    assert run(app, ["host", *args]) == 0
    return capsys.readouterr().out


def test_a_captured_tree_with_names_bound_and_unbound(tmp_path, capsys):
    port = "sys/class/infiniband/mlx5_0/ports/1"
    files(
        tmp_path,
        {f"{port}/state": "4: ACTIVE", f"{port}/hw_counters/out_of_sequence": 7, f"{port}/hw_counters/new_one": 3},
    )

    told = json.loads(said(capsys, "--root", str(tmp_path), "--json"))
    shown = said(capsys, "--root", str(tmp_path))

    found = {r["dialect"]: r for r in told["readings"]}
    hw = found["mlx5.hw"]
    assert hw["values"] == {"new_one": 3, "out_of_sequence": 7}
    assert hw["bound"] == {"out_of_sequence": "port.out_of_sequence_rx"}
    assert hw["unbound"] == ["new_one"]
    assert hw["labels"]["device"] == "mlx5_0"
    assert "unbound in mlx5.hw: new_one" in shown


def test_this_machine_has_a_loopback(capsys):
    readings = json.loads(said(capsys, "--json"))["readings"]

    assert any(r["dialect"] == "netdev" and r["labels"]["netdev"] == "lo" for r in readings)


def test_a_root_that_is_none_is_an_error_of_one_line(tmp_path, capsys):
    assert run(app, ["host", "--root", str(tmp_path)]) == 2
    out, err = capsys.readouterr()
    assert not out
    assert "there is no sys/class in it" in err
    assert err.count("\n") == 1
