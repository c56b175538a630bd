"""`railkeeper signals`: lists, explains, and says what it does not know."""

from __future__ import annotations

import json
import sys

import pytest

from railkeeper.cli.main import main


def run(capsys, monkeypatch, *args, stdin=""):
    monkeypatch.setattr(sys, "argv", ["railkeeper", "signals", *map(str, args)])
    monkeypatch.setattr(sys.stdin, "read", lambda _n=-1: stdin)
    with pytest.raises(SystemExit) as stopped:
        main()
    out, err = capsys.readouterr()
    return stopped.value.code, out, err


@pytest.fixture
def signals(capsys, monkeypatch):
    return lambda *args, **more: run(capsys, monkeypatch, *args, **more)


def data(answer):
    code, out, _ = answer
    assert code == 0
    found = json.loads(out)
    assert found["schema"] == 1
    return found


def test_the_list_has_all(signals):
    code, out, _ = signals()
    found = data(signals("--json"))

    assert code == 0
    assert "pfc_rx_frames[priority]" in out
    assert "mlx5.hw" in out
    assert len(found["signals"]) > 250
    assert {"name", "kind", "unit", "direction", "parts", "absent", "text"} == set(found["signals"][0])


def test_one_signal_is_explained(signals):
    code, out, _ = signals("pfc_rx_frames")
    found = data(signals("port.pfc_rx_frames[3]", "--json"))["signals"][0]

    assert code == 0
    assert "the other end holds this one" in out
    assert "SAI_PORT_STAT_PFC_{p}_RX_PKTS" in out
    assert {"mlx5.ethtool", "bnxt.ethtool", "sonic.port"} <= {row["dialect"] for row in found["native"]}


def test_a_dialect_and_a_native_name(signals):
    assert "age of the driver's cache" in signals("--dialect", "mlx5.hw")[1]
    assert len(data(signals("--dialect", "mlx5.hw", "--json"))["bound"]) > 20
    assert "times 4" in signals("--native", "port_xmit_data")[1]
    assert data(signals("--native", "recoverable_errors", "--json"))["known"][0]["dialect"] == "bnxt.hw"
    assert "no dialect knows it" in signals("--native", "news")[1]


@pytest.mark.parametrize(
    ("text", "form", "unbound"),
    [
        ("NIC statistics:\n     rx_prio3_pause: 7\n     rx_news_phy: 9\n     rx0_packets: 1\n", "ethtool", ["rx_news_phy"]),
        ('# HELP x y\nnode_infiniband_state_id{device="a"} 4\nnews_total 5\n', "exposition", ["news_total"]),
        ("PortSelect:......................1\nPortXmitData:....................7\nNews:............2\n", "ethtool", ["News"]),
        ('{"COUNTERS:oid:0x1": {"SAI_PORT_STAT_IF_IN_OCTETS": "1", "SAI_NEWS": "2"}}', "json", ["SAI_NEWS"]),
        ("local_ack_timeout_err\nout_of_sequence\nnews\n", "list", ["news"]),
        ("", "list", []),
    ],
)  # fmt: skip
def test_what_is_unbound_in_what_people_have_at_hand(signals, tmp_path, text, form, unbound):
    (tmp_path / "dump").write_text(text)
    found = data(signals("--unbound", tmp_path / "dump", "--json"))

    assert found["form"] == form
    assert [u["native"] for u in found["unbound"]] == unbound
    assert found["names"] == len(found["bound"]) + len(found["known"]) + len(unbound)
    assert data(signals("--unbound", "-", "--json", stdin=text)) == found
    assert f"{len(unbound)} unbound" in signals("--unbound", tmp_path / "dump")[1]


def test_bindings_of_a_site(signals, tmp_path):
    mine = tmp_path / "acme.toml"
    mine.write_text('[dialect]\nname = "acme.mrc"\nabout = "x"\n[bind]\nevSwap = "port.ev_swaps"\n')

    assert "acme.mrc: evSwap is port.ev_swaps" in signals("--native", "evSwap", "--bindings", mine)[1]
    mine.write_text('[dialect]\nname = "acme.mrc"\nabout = "x"\n[bind]\nevSwap = "port.swaps"\n')
    code, _, err = signals("--bindings", mine)
    assert code == 2
    assert "acme.toml: bind.evSwap" in err


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["timeouts"], "did you mean port.ack_timeouts"),
        (["nothing-like-it"], "railkeeper signals lists them"),
        (["--dialect", "mlx9"], "there is no dialect 'mlx9'"),
        (["ack_timeouts", "--native", "x"], "give one of them"),
        (["--unbound", "/does/not/exist"], "does not exist"),
    ],
)
def test_wrong_use_is_told(signals, args, says):
    code, out, err = signals(*args)

    assert (code, out) == (2, "")
    assert says in err
