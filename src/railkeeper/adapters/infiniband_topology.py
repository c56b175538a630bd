"""The text of `ibnetdiscover`: all nodes, their ports and which port is at the other end.

Strict: a line of no known form is an error with its number, since a link that is not read is not watched.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from railkeeper.base.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_LINES = 4_000_000
MOST_LINE_CHARS = 2_000

# (node's guid in 16 hex digits, port number)
End = tuple[str, int]

_ATTRIBUTE = re.compile(r"(?:vendid|devid|sysimgguid|caguid|switchguid|rtguid)=0x[0-9a-f]{1,16}(?:\([0-9a-f]{1,16}\))?")
_NODE = re.compile(
    r'(Switch|Ca|Rt)\s+(\d{1,3}) "[SHR]-([0-9a-f]{16})"\s+# "(.*)"'
    r"(?:\s+(?:enhanced|base) port \d{1,3} lid (\d{1,5}) lmc \d)?"
)
_PORT = re.compile(
    r'\[(\d{1,3})\](?:\(([0-9a-f]{1,16})\))?(?:\[ext \d+\])?\s+"[SHR]-([0-9a-f]{16})"\[(\d{1,3})\]'
    r"(?:\(([0-9a-f]{1,16})\))?(?:\[ext \d+\])?\s+#\s+(.*)"
)
_OWN_LID = re.compile(r"lid (\d{1,5}) lmc ")
_WIDTH_SPEED = re.compile(r"\b(\d{1,2}x[A-Z]{2,4}\d{0,2})\b(?: s=\d+ w=\d+ v=\d+ e=\d+)?\s*\Z")


@dataclass(frozen=True)
class Node:
    """One device: kind "Switch", "Ca" or "Rt", how many ports it has, and its LID where the text says it."""

    guid: str
    kind: str
    ports: int
    name: str
    lid: int = 0


@dataclass
class Topology:
    """What a subnet looks like: nodes by guid, other end of each linked port, and each port's own guid and speed word.

    `lids`: LID of each end that has one of its own (a host's port; a switch has one for all its ports).
    """

    nodes: dict[str, Node] = field(default_factory=dict)
    other_end: dict[End, End] = field(default_factory=dict)
    port_guids: dict[str, End] = field(default_factory=dict)
    lids: dict[End, int] = field(default_factory=dict)
    speeds: dict[End, str] = field(default_factory=dict)

    def links(self) -> list[tuple[End, End]]:
        """Return each link once, its smaller end first, sorted."""
        return sorted({(min(a, b), max(a, b)) for a, b in self.other_end.items()})

    def one_sided(self) -> list[tuple[End, End]]:
        """Return links that only one end tells, or of which the ends tell differently: the subnet changed meanwhile."""
        return sorted((a, b) for a, b in self.other_end.items() if self.other_end.get(b) != a)

    def lid_of(self, end: End) -> int:
        """Return the LID by which a port is asked; 0 if none is known."""
        node = self.nodes.get(end[0])
        return self.lids.get(end, node.lid if node else 0)


def read_topology(text: str, where: str = "ibnetdiscover") -> Topology:
    """Read the text of `ibnetdiscover`, with or without -f. Raises InputError, also if it shows no link at all."""
    lines = text.split("\n")
    if len(lines) > MOST_LINES:
        raise InputError(where, f"{len(lines)} lines", f"at most {MOST_LINES} are read")
    topology = Topology()
    at: Node | None = None
    for number, line in enumerate(lines, start=1):
        at = _read_line(topology, at, line.rstrip(), f"{where}: line {number}")
    if not topology.nodes:
        raise InputError(where, "it names no node", "save the output of ibnetdiscover")
    if not topology.other_end:
        names = ", ".join(sorted(node.name for node in topology.nodes.values())[:3])
        raise InputError(where, f"no link is seen, only {names}", "its port to the subnet is down, or it was cut short")
    return topology


def _read_line(topology: Topology, at: Node | None, line: str, where: str) -> Node | None:
    """Read one line; return the node that the next one belongs to."""
    if len(line) > MOST_LINE_CHARS:
        raise InputError(where, f"{len(line)} characters", f"at most {MOST_LINE_CHARS} are read")
    if not line.strip() or line.startswith("#"):
        return at
    if _ATTRIBUTE.fullmatch(line):
        return None
    if found := _NODE.fullmatch(line):
        return _add_node(topology, found, where)
    if at is not None and (found := _PORT.fullmatch(line)):
        _add_port(topology, at, found, where)
        return at
    raise InputError(where, f"{line[:60]!r} is none of ibnetdiscover's lines", "save its output as it is, all of it")


def _add_node(topology: Topology, found: re.Match[str], where: str) -> Node:
    kind, ports, guid, name, lid = found.groups()
    if guid in topology.nodes:
        raise InputError(where, f"node {guid} is there twice", "save one run in each file")
    node = Node(guid=guid, kind=kind, ports=int(ports), name=name, lid=int(lid or 0))
    topology.nodes[guid] = node
    return node


def _add_port(topology: Topology, at: Node, found: re.Match[str], where: str) -> None:
    port, port_guid, other, other_port, _, rest = found.groups()
    end = (at.guid, int(port))
    if end in topology.other_end:
        raise InputError(where, f"port {port} of {at.name} is there twice", "save one run in each file")
    topology.other_end[end] = (other, int(other_port))
    if port_guid:
        topology.port_guids[port_guid.zfill(16)] = end
    if at.kind != "Switch" and (own := _OWN_LID.match(rest)):
        topology.lids[end] = int(own[1])
    if speed := _WIDTH_SPEED.search(rest):
        topology.speeds[end] = speed[1]


def name_of(nodes: Mapping[str, Node], guid: str) -> str:
    """Return a node's name, or its guid if it is not known: names are free text, and many cards have the same."""
    node = nodes.get(guid)
    return node.name if node else guid
