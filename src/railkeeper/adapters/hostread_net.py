"""Network interfaces and PCIe links of a host, from sysfs."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from railkeeper.adapters.hostread_files import inside, names_in, number_or_text, read_numbers, read_optional
from railkeeper.adapters.hostread_rdma import driver_of, family_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    Value = int | float | str | None

_STATE_FILES = (
    "carrier",
    "carrier_changes",
    "carrier_up_count",
    "carrier_down_count",
    "speed",
    "mtu",
    "operstate",
    "dev_port",
)
_PCI_FILES = ("current_link_speed", "max_link_speed", "current_link_width", "max_link_width", "numa_node", "vendor")
_AER_FILES = ("aer_dev_correctable", "aer_dev_nonfatal", "aer_dev_fatal")
_PCI_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z")
_AER_LINE = re.compile(r"([A-Za-z_]{1,40}) (\d{1,20})\Z", re.ASCII)


@dataclass(frozen=True)
class Netdev:
    """One network interface: state (with its counters of carrier changes) and the kernel's statistics."""

    name: str
    family: str
    pci: str
    state: Mapping[str, Value] = field(default_factory=dict)
    statistics: Mapping[str, Value] = field(default_factory=dict)


def read_netdevs(root: str, left_out: list[str]) -> list[Netdev]:
    """Return all interfaces below a root. One without a device of its own (lo, veth) has no family and no PCI.

    Interfaces whose links lead out of the root go to `left_out`.
    """
    top = f"{root}/sys/class/net"
    found = []
    for name in names_in(top):
        directory = inside(root or "/", f"{top}/{name}")
        if directory is not None:
            found.append(_netdev(root, directory, name))
        elif os.path.islink(f"{top}/{name}"):  # noqa: PTH114 - speed; what is no link here is no interface
            left_out.append(f"net/{name}")
    return found


def _netdev(root: str, directory: str, name: str) -> Netdev:
    pci = inside(root or "/", f"{directory}/device") or ""
    state = {}
    for file in _STATE_FILES:
        text = read_optional(f"{directory}/{file}")
        # Unknown speed reads as -1, or not at all while the link is down.
        state[file] = None if text == "-1" else number_or_text(text)
    return Netdev(
        name=name,
        family=family_of(driver_of(pci), "") if pci else "",
        pci=pci,
        state=state,
        statistics=read_numbers(f"{directory}/statistics"),
    )


def pci_address(path: str) -> str:
    """Return the PCI address that a device's real path ends with; empty if it is no PCI device."""
    name = os.path.basename(path)  # noqa: PTH119 - speed
    return name if _PCI_ADDRESS.match(name) else ""


def read_pci(path: str) -> dict[str, Value]:
    """Return speed, width and error counts of a PCI device: each AER counter as `aer_dev_fatal.TLP`."""
    values: dict[str, Value] = {}
    for name in _PCI_FILES:
        text = read_optional(f"{path}/{name}")
        if text is not None:
            values[name] = number_or_text(text)
    for name in _AER_FILES:
        values.update(parse_aer(name, read_optional(f"{path}/{name}")))
    return values


def parse_aer(name: str, text: str | None) -> dict[str, Value]:
    """Return the counters of an AER file; a line that is not `Name count` is told under its number, unread."""
    values: dict[str, Value] = {}
    for number, line in enumerate((text or "").splitlines(), start=1):
        found = _AER_LINE.match(line.strip())
        if found and f"{name}.{found[1]}" not in values:
            values[f"{name}.{found[1]}"] = int(found[2])
        elif line.strip():
            values[f"{name}.line{number}"] = None
    return values
