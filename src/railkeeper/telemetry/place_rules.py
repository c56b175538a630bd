"""Rules of who is where: which host is which node, which device is which NIC, which switch and interface is which port.

[[hosts]]
match = "gpu-{n:03d}"
name = "n{n-1}"
[[devices]]
match = "roce_r{r}"
name = "nic{r}"
ports = { "3" = 0, "6" = 1, "9" = 2, "12" = 3 }      # its ports by plane; all others are no part of the fabric
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field

from railkeeper.base.errors import InputError
from railkeeper.telemetry.templates import Reader, check_slots, fields_of, reader, write

if TYPE_CHECKING:
    from collections.abc import Sequence

OUTSIDE_NAME = "-"  # in place of a name: no part of the fabric


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class NameRule(_Settings):
    """Names of one form: `match` reads numbers out of them, `name` writes the fabric's name from these."""

    match: str = Field(min_length=1)
    name: str = Field(min_length=1)


class DeviceRule(NameRule):
    """An RDMA device, network interface or PCI address of a host.

    - name: its NIC within the node (`nic0`), or `-` for no part of the fabric
    - plane: its plane where the device has one ("{p}", "0"); without plane and ports it serves all planes of its NIC
    - ports: plane of each RDMA port that is in use
    """

    plane: str = ""
    ports: dict[str, int] = {}


class InterfaceRule(_Settings):
    """Interfaces of all switches of a tier, in a row: `match` reads one number, that goes from `first` in steps.

    - side: "down" to NICs (of a T0) or T0s (of a T1), "up" to T1s
    - start: number of the first one's downlink or uplink
    """

    tier: Literal["t0", "t1"]
    match: str = Field(min_length=1)
    side: Literal["down", "up"] = "down"
    first: int = Field(default=0, ge=0)
    step: int = Field(default=1, ge=1)
    count: int = Field(ge=1)
    start: int = Field(default=0, ge=0)


class PlacesSettings(_Settings):
    """Who is where; tables of exact names are stronger than rules, and of rules the first that fits."""

    hosts: list[NameRule] = []
    host_table: dict[str, str] = {}
    devices: list[DeviceRule] = []
    switches: list[NameRule] = []
    switch_table: dict[str, str] = {}
    interfaces: list[InterfaceRule] = []
    interface_table: dict[str, str] = {}
    lldp: bool = True


class Names:
    """A table and rules that turn names of sources into names of the fabric."""

    def __init__(self, table: dict[str, str], rules: Sequence[NameRule], *, where: str) -> None:
        """Raise InputError that names the rule that is no template."""
        self._table = dict(table)
        self._rules = [(_reader(rule.match, rule.name, f"{where}[{i}]"), rule.name) for i, rule in enumerate(rules)]

    def find(self, *names: str) -> str | None:
        """Return the fabric's name of the first of some names that is known."""
        for name in names:
            if name in self._table:
                return self._table[name]
        for name in names:
            for read, wanted in self._rules:
                numbers = read.read(name)
                if numbers is not None:
                    return write(wanted, numbers)
        return None


class Devices:
    """Rules of devices: which NIC a device of a host is, and which plane its port."""

    def __init__(self, rules: Sequence[DeviceRule], *, where: str) -> None:
        """Raise InputError that names the rule that is no template."""
        self._rules = []
        for i, rule in enumerate(rules):
            read = _reader(rule.match, rule.name, f"{where}[{i}]")
            check_slots(rule.plane, fields_of(rule.match), where=f"{where}[{i}].plane")
            self._rules.append((read, rule))

    def find(self, device: str, port: str) -> tuple[str, int | None] | None:
        """Return (NIC, plane) of a device's port: plane None for all planes, NIC `-` for no part of the fabric."""
        for read, rule in self._rules:
            numbers = read.read(device)
            if numbers is None:
                continue
            name = write(rule.name, numbers)
            if rule.plane:
                plane = write(rule.plane, numbers)
                return name, int(plane) if plane.isdecimal() else -1
            if rule.ports and port:
                return (name, rule.ports[port]) if port in rule.ports else (OUTSIDE_NAME, None)
            return name, None
        return None


def _reader(match: str, name: str, where: str) -> Reader:
    read = reader(match, where=f"{where}.match")
    check_slots(name, fields_of(match), where=f"{where}.name")
    return read


def interface_reader(rule: InterfaceRule, *, where: str) -> Reader:
    """Return what reads an interface's number; raises InputError unless its form has one number."""
    read = reader(rule.match, where=f"{where}.match")
    if len(fields_of(rule.match)) != 1:
        raise InputError(f"{where}.match", f"{rule.match!r} has not one number", 'as in "Ethernet{i}"')
    return read


def read_table(text: str, *, where: str, columns: Sequence[str]) -> dict[str, str]:
    """Return a table of names from CSV text with these columns; the last one is the fabric's name.

    Keys of several columns are joined by `|`. Raises InputError with the line.
    """
    import csv  # noqa: PLC0415  only where a site has such a file

    rows = csv.DictReader(text.splitlines())
    if rows.fieldnames is None or set(columns) - set(rows.fieldnames):
        raise InputError(where, f"has the columns {rows.fieldnames or []}", f"needed: {', '.join(columns)}")
    out: dict[str, str] = {}
    for row in rows:
        cells = [(row[name] or "").strip() for name in columns]
        key = "|".join(cells[:-1])
        if not all(cells) or key in out:
            problem = "is there twice" if key in out else "has an empty cell"
            raise InputError(f"{where}: line {rows.line_num}", problem, "one line for each, all cells filled")
        out[key] = cells[-1]
    return out
