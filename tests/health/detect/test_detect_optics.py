"""Optics: lanes, peers, own past, limits; darkness that is meant, and days that are warm."""

from __future__ import annotations

import numpy as np
import pytest
from physical_worlds import World

from railkeeper.health.detect.finding import V_NO_DATA, V_OK
from railkeeper.health.detect.optics import Optics

LANES = {
    f"{name}[{lane}]": value
    for name, value in (("rx_power_dbm", -2), ("tx_power_dbm", 0), ("tx_bias_ma", 60), ("snr_db", 22))
    for lane in range(4)
}
MODULE = {"module_temperature_c": 50, "module_voltage_v": 3.3, "oper_up": 1, "admin_up": 1}


def optics(**parameters):
    w = World(Optics(), gauges=LANES | MODULE, parameters=parameters)
    chance = np.random.default_rng(3)
    for name in w.ports.gauge:
        if name not in {"oper_up", "admin_up", "module_voltage_v"}:
            w.ports.gauge[name] += chance.normal(0, 0.3, len(w.ports.entities)).astype(np.float32)
    return w


def test_healthy():
    w = optics()

    assert w.tick(20) == []
    assert (w.verdicts() == V_OK).all()


@pytest.mark.parametrize(
    ("signal", "value", "verdict", "words"),
    [
        ("rx_power_dbm[2]", -7, "degraded", "rx_power_dbm of lane 2"),
        ("rx_power_dbm[2]", -12, "degraded", "the limit -10"),
        ("rx_power_dbm[1]", -40, "failed", "sends"),
        ("tx_power_dbm[0]", -5, "degraded", "this module"),
        ("tx_bias_ma[3]", 130, "degraded", "this module"),
        ("module_temperature_c", 85, "degraded", "the limit 75"),
        ("module_voltage_v", 2.9, "degraded", "the limit 3"),
    ],
)
def test_one_measurement_is_off(signal, value, verdict, words):
    w = optics()
    w.tick(2)
    w.ports.gauge[signal][9] = value
    (finding,) = w.tick(4)

    assert (finding.entity, finding.verdict, finding.others) == (9, verdict, (8,))
    assert finding.signal == signal
    assert finding.value == pytest.approx(value, abs=1)
    assert words in " ".join(finding.evidence)


def test_dim_light_names_what_the_other_end_sends():
    w = optics()
    w.ports.gauge["tx_power_dbm[2]"][8] = -9
    w.ports.gauge["rx_power_dbm[2]"][9] = -11
    found = {f.entity: f for f in w.tick(4)}

    assert "sends -9 dBm there" in " ".join(found[9].evidence)
    assert found[8].signal == "tx_power_dbm[2]"


@pytest.mark.parametrize("end", [8, 9])
@pytest.mark.parametrize("state", ["oper_up", "admin_up"])
def test_darkness_of_a_link_that_is_off_is_meant(end, state):
    w = optics()
    w.ports.gauge[state][end] = 0
    for lane in range(4):
        w.ports.gauge[f"rx_power_dbm[{lane}]"][[8, 9]] = -40

    assert w.tick(8) == []


def test_a_drift_against_own_past():
    w = optics(past_least_s=600)
    w.tick(60)
    for lane in range(4):
        w.ports.gauge[f"rx_power_dbm[{lane}]"][9] -= 3
    (finding,) = w.tick(4)

    assert (finding.entity, finding.against) == (9, "past")


def test_a_warm_day_blames_no_module():
    w = optics(past_least_s=600)
    w.tick(60)
    w.ports.gauge["module_temperature_c"] += 18

    assert w.tick(6) == []


def test_a_hot_lane():
    w = World(Optics(), ports={f"lane_errors[{lane}]": 100 for lane in range(4)})
    w.tick(2)
    w.ports.per_s["lane_errors[3]"][4] = 1e6
    (finding,) = w.tick(4)

    assert (finding.entity, finding.signal) == (4, "lane_errors[3]")


def test_copper_has_no_light_and_is_no_data():
    w = optics()
    for name in (*LANES, *MODULE):
        w.ports.absent[name] = [0]
    w.tick(4)

    assert w.verdicts()[0] == V_NO_DATA
    assert w.verdicts()[1] == V_OK
