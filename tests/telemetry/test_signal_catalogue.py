"""The catalogue: every signal once, explained, and errors that name the key."""

from __future__ import annotations

import pytest
from pages_of_signals import rows_of_page, tables, written_tables

from railkeeper.base.errors import InputError
from railkeeper.telemetry.bind import binder
from railkeeper.telemetry.entities import KINDS
from railkeeper.telemetry.signals import NAMED, NUMBERED, catalogue, read_catalogue

GOOD = '[port.rx]\nkind = "counter"\nunit = "bytes"\nabsent = "Not read."\ntext = "Bytes."\n'


@pytest.mark.parametrize("signal", catalogue(), ids=lambda s: s.full_name)
def test_every_signal_is_explained(signal):
    assert signal.entity in KINDS
    assert signal.text.endswith(".")
    assert len(signal.text) <= 160
    assert signal.absent.endswith(".")
    assert signal.parts in ("", *NUMBERED, *NAMED)
    assert not signal.is_counter or signal.unit not in ("bool", "ratio", "C", "dBm")
    assert signal.kind != "state" or signal.unit == "bool"


def test_names_that_detectors_use_are_there():
    for name in ("port.rx_crc_errors", "port.pfc_rx_frames", "nic.pcie_width", "gpu.xid_last", "node.clock_offset_s"):
        assert name in catalogue()
    assert [s.full_name for s in catalogue().named("pcie_replays")] == ["nic.pcie_replays", "gpu.pcie_replays"]
    assert [s.name for s in catalogue().named("port.pfc_rx_frames[3]")] == ["pfc_rx_frames"]


def test_every_signal_has_a_native_name_or_is_ours():
    bound = {row.signal.full_name for dialect in binder().dialects for row in dialect.rows}

    # The keeper's own: whether a source answered.
    assert {s.full_name for s in catalogue()} - bound == {"node.up"}


def test_the_page_has_every_signal_and_no_other():
    assert rows_of_page() == {s.full_name: (s.kind, s.unit) for s in catalogue()}
    assert written_tables() == tables(), "run python tests/telemetry/pages_of_signals.py"


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("[port.rx", "some.toml"),
        ('[plane.rx]\nkind = "counter"', "some.toml: plane"),
        ("port = 3", "some.toml: port"),
        (GOOD.replace('"counter"', '"count"'), "some.toml: port.rx.kind"),
        (GOOD.replace('text = "Bytes."\n', ""), "some.toml: port.rx.text"),
        (GOOD.replace('absent = "Not read."\n', ""), "some.toml: port.rx.absent"),
        (GOOD + 'colour = "red"', "some.toml: port.rx.colour"),
        (GOOD + "width = 33", "some.toml: port.rx.width"),
        (GOOD.replace("port.rx", "port.RX"), "some.toml: port.RX"),
    ],
)
def test_errors_name_file_and_key(text, where):
    with pytest.raises(InputError) as error:
        read_catalogue(text, where="some.toml")
    assert error.value.where == where


def test_columns():
    signal = catalogue().get("port.pfc_rx_frames")

    assert signal.column("3") == "pfc_rx_frames[3]"
    assert catalogue().get("port.rx_bytes").column() == "rx_bytes"
    assert len(read_catalogue(GOOD, where="x")) == 1
