from __future__ import annotations

import pytest
from probe_fabrics import fabric

from railkeeper.base.errors import InputError
from railkeeper.probe.interfaces import InterfaceReader, missing, parse_interfaces


def test_loopback_is_read():
    reader = InterfaceReader()
    lo = reader.read()["lo"]

    assert lo.index == 1
    assert lo.downs >= 0
    assert reader.neighbour(999_999) == b""
    reader.close()


def test_interfaces_that_are_not_there_are_told():
    assert missing(["no-such-1", "lo", "no-such-0"]) == ["no-such-1", "no-such-0"]


F = fabric(planes=2, per_node=2)


def test_ports_may_be_named_in_any_order_and_form():
    texts = ["nic1/p0=c", "nic0/p1=b", "n3/nic0/p0=a", "nic1/p1=d"]

    assert parse_interfaces(F, 3, texts) == ("a", "b", "c", "d")


@pytest.mark.parametrize(
    ("texts", "problem"),
    [
        (["nic0/p0=a"], "n3/nic0/p1"),
        (["nic0/p0"], "names no port"),
        (["nic9/p0=a"], "nic 9 does not exist"),
        (["n2/nic0/p0=a"], "names no port of n3"),
        (["p0/t0-1=a"], "--interface"),
        (["nic0=a"], "names no port"),
        (["=a"], "--interface"),
    ],
)
def test_wrong_ones_are_named(texts, problem):
    with pytest.raises(InputError, match=problem):
        parse_interfaces(F, 3, texts)
