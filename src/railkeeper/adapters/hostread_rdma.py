"""RDMA devices of a host: /sys/class/infiniband, and what `rdma` alone knows (optional counters, netdevs of ports)."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from railkeeper.adapters.hostread_files import inside, names_in, number_or_text, read_numbers, read_optional
from railkeeper.base.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    Value = int | float | str | None

# Which bindings a driver's names belong to. The device's name is asked where a captured tree has lost the driver.
_FAMILY_OF_DRIVER = {"mlx5_core": "mlx5", "mlx4_core": "mlx4", "bnxt_en": "bnxt", "ionic": "ionic", "ice": "irdma"}
_FAMILY_OF_NAME = (("mlx5", "mlx5"), ("mlx4", "mlx4"), ("bnxt", "bnxt"), ("ionic", "ionic"), ("irdma", "irdma"))
_ODD = re.compile(r"[^a-z0-9_]+")
_STATES = ("state", "phys_state", "rate", "link_layer")
MOST_JSON_BYTES = 16_000_000


@dataclass(frozen=True)
class RdmaPort:
    """One port of an RDMA device: what its files say.

    - counters: files of `counters/`, hw: files of `hw_counters/`, state: state, phys_state, rate, link_layer
    """

    device: str
    port: str
    family: str
    pci: str
    state: Mapping[str, Value] = field(default_factory=dict)
    counters: Mapping[str, Value] = field(default_factory=dict)
    hw: Mapping[str, Value] = field(default_factory=dict)


def read_rdma(root: str, left_out: list[str]) -> list[RdmaPort]:
    """Return all ports of all RDMA devices below a root; none where there is no such class.

    Devices whose links lead out of the root go to `left_out`.
    """
    top = f"{root}/sys/class/infiniband"
    ports = []
    for device in names_in(top):
        directory = inside(root or "/", f"{top}/{device}")
        if directory is None:
            left_out.append(f"infiniband/{device}")
            continue
        pci = inside(root or "/", f"{directory}/device")
        family = family_of(driver_of(pci), device)
        for port in names_in(f"{directory}/ports"):
            ports.append(_port(f"{directory}/ports/{port}", device, port, family, pci or ""))
    return ports


def _port(path: str, device: str, port: str, family: str, pci: str) -> RdmaPort:
    state = {name: number_or_text(read_optional(f"{path}/{name}")) for name in _STATES}
    return RdmaPort(
        device=device,
        port=port,
        family=family,
        pci=pci,
        state=state,
        counters=read_numbers(f"{path}/counters"),
        hw=read_numbers(f"{path}/hw_counters"),
    )


def driver_of(pci: str | None) -> str:
    """Return the name of a device's driver; empty if that is not known."""
    try:
        return os.path.basename(os.readlink(f"{pci}/driver")) if pci else ""  # noqa: PTH115, PTH119 - speed
    except OSError:
        return ""


def family_of(driver: str, device: str) -> str:
    """Return the family of names: the first word of a dialect."""
    if driver in _FAMILY_OF_DRIVER:
        return _FAMILY_OF_DRIVER[driver]
    known = next((family for start, family in _FAMILY_OF_NAME if device.startswith(start)), "")
    return known or _ODD.sub("_", (driver or "rdma").lower()).strip("_").lstrip("0123456789_") or "rdma"


def read_statistic(text: str, where: str = "rdma statistic show -j") -> dict[tuple[str, str], dict[str, Value]]:
    """Return (device, port) -> counters of `rdma statistic show -j`. Raises InputError."""
    out: dict[tuple[str, str], dict[str, Value]] = {}
    for entry in _entries(text, where):
        names = {k: v for k, v in entry.items() if k not in {"ifindex", "ifname", "port"}}
        out.setdefault(_key(entry, where), {}).update({k: _value(v, where) for k, v in names.items()})
    return out


def read_links(text: str, where: str = "rdma link -j") -> dict[tuple[str, str], dict[str, Value]]:
    """Return (device, port) -> state, physical_state, netdev … of `rdma link -j`. Raises InputError."""
    out: dict[tuple[str, str], dict[str, Value]] = {}
    for entry in _entries(text, where):
        values = {k: _value(v, where) for k, v in entry.items() if k not in {"ifindex", "ifname", "port"}}
        out.setdefault(_key(entry, where), {}).update(values)
    return out


def _entries(text: str, where: str) -> list[dict[str, Any]]:
    right = "a list of objects with ifname and port is expected"
    if len(text) > MOST_JSON_BYTES:
        raise InputError(where, f"{len(text)} bytes", f"at most {MOST_JSON_BYTES} are read")
    if not text.strip():
        return []
    try:
        found = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise InputError(where, f"it is no JSON ({error})", right) from None
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise InputError(where, "it is no list of objects", right)
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def _key(entry: Mapping[str, Any], where: str) -> tuple[str, str]:
    device, port = entry.get("ifname"), entry.get("port")
    if not isinstance(device, str) or not isinstance(port, int) or isinstance(port, bool) or not device:
        raise InputError(where, "an entry has no ifname and port", "it is no output of iproute2's rdma")
    return device, str(port)


def _value(value: Any, where: str) -> Value:
    if isinstance(value, bool):
        return int(value)
    if value is None or isinstance(value, int | float | str):
        return value
    if isinstance(value, list | dict):
        return json.dumps(value)
    raise InputError(where, f"{value!r} is no value", "numbers and texts are expected")
