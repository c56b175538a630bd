"""Packet filters at the receiving ends of links: loss, corruption, one-way cuts, black holes; each with a counter.

Every fault has a table of its own with one chain per interface, so that several faults on one link add up and each
comes and goes without touching the others.
"""

from __future__ import annotations

import json
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING

from railkeeper.lab import names
from railkeeper.lab.command import run_all, run_in

if TYPE_CHECKING:
    from collections.abc import Iterable

    from railkeeper.lab.plan import LabPlan

PPM = 1_000_000
CORRUPT_AT = 56
"""First byte of the UDP payload that `corrupt` overwrites: behind any header, inside what a CRC covers."""

_UDP_HEADER = 8
DROP_ALL = "counter drop"


def loss_rule(rate: float) -> str:
    """Return a rule that drops packets with a probability, to the millionth."""
    return DROP_ALL if rate >= 1.0 else f"numgen random mod {PPM} < {_ppm(rate)} {DROP_ALL}"


def corrupt_rule(rate: float) -> str:
    """Return a rule that overwrites two payload bytes of UDP packets with a probability."""
    hit = f"@th,{8 * (_UDP_HEADER + CORRUPT_AT)},16 set 0xdead counter"
    return (
        f"meta l4proto udp {hit}" if rate >= 1.0 else f"meta l4proto udp numgen random mod {PPM} < {_ppm(rate)} {hit}"
    )


def _ppm(rate: float) -> int:
    return max(1, round(rate * PPM))


class Filter:
    """One rule at the receiving ends of links, all under one table name."""

    def __init__(self, plan: LabPlan, table: str, ends: Iterable[int], rule: str) -> None:
        self._table, self._rule = table, rule
        self._devices: dict[str, list[str]] = defaultdict(list)
        for end in ends:
            self._devices[plan.name_of_end(end)].append(names.interface_of_end(plan.fabric, end))

    def start(self) -> None:
        """Put the rule in place."""
        run_all([partial(_nft, space, self._script(devices)) for space, devices in self._devices.items()])

    def stop(self) -> None:
        """Take the rule away; counts are lost."""
        gone = f"add table netdev {self._table}\ndelete table netdev {self._table}\n"
        run_all([partial(_nft, space, gone) for space in self._devices])

    def packets(self) -> int:
        """Return how many packets the rule has hit."""
        return sum(
            _count(run_in(space, ["nft", "-j", "list", "table", "netdev", self._table])) for space in self._devices
        )

    def _script(self, devices: list[str]) -> str:
        chains = "".join(
            f"chain {d} {{ type filter hook ingress device {d} priority 0; policy accept; {self._rule}; }}\n"
            for d in devices
        )
        table = f"table netdev {self._table}"
        return f"add {table}\ndelete {table}\n{table} {{\n{chains}}}\n"


def _nft(space: str, script: str) -> None:
    run_in(space, ["nft", "-f", "-"], script)


def _count(listing: str) -> int:
    rules = [x["rule"]["expr"] for x in json.loads(listing)["nftables"] if "rule" in x]
    return sum(int(e["counter"]["packets"]) for expressions in rules for e in expressions if "counter" in e)
