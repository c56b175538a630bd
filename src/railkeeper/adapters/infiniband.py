"""An InfiniBand subnet as readings: state, links and counters of every port, through infiniband-diags.

Three programs ask the whole subnet in a moment: `ibnetdiscover` (who is there), `iblinkinfo` (states of ports) and
`ibqueryerrors` (counters). They run where a port of the subnet is, and nothing of theirs is cleared.
"""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from railkeeper.adapters.infiniband_run import Said, run_tool
from railkeeper.adapters.infiniband_texts import Errors, LinkLine, read_errors, read_links, read_perfquery
from railkeeper.adapters.infiniband_topology import End, Topology, name_of, read_topology
from railkeeper.base.errors import InputError, OutsideError
from railkeeper.telemetry.reading import Reading

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Value = int | float | str | None

# Counters that every port has to keep by the standard: a port that was asked and is not in the list of those with
# errors has none of them.
ALWAYS_COUNTED = (
    "SymbolErrorCounter",
    "LinkErrorRecoveryCounter",
    "LinkDownedCounter",
    "PortRcvErrors",
    "PortRcvRemotePhysicalErrors",
    "PortRcvSwitchRelayErrors",
    "PortXmitDiscards",
    "PortXmitConstraintErrors",
    "PortRcvConstraintErrors",
    "LocalLinkIntegrityErrors",
    "ExcessiveBufferOverrunErrors",
    "VL15Dropped",
)


@dataclass(frozen=True)
class InfinibandSettings:
    """One subnet, asked from one port of this host.

    - ca, ca_port: which port asks; empty and 0 for the first one
    - traffic: also ask for bytes and packets of all ports
    - watched: ports ((node guid, port), …) whose counters are asked one by one too, by perfquery
    - env: more of the programs' environment
    """

    source: str
    subnet: str
    ca: str = ""
    ca_port: int = 0
    interval_s: float = 30.0
    timeout_s: float = 20.0
    traffic: bool = True
    watched: tuple[End, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


class InfinibandTarget:
    """A `Target` for a whole subnet."""

    def __init__(self, settings: InfinibandSettings) -> None:
        self.settings = settings
        self.source = settings.source
        self.name = settings.subnet
        self.interval_s = settings.interval_s
        self.timeout_s = settings.timeout_s

    async def poll(self) -> Sequence[Reading]:
        """Ask the whole subnet. Raises OutsideError if a program fails, or prints what is none of its forms."""
        try:
            return await self._poll()
        except InputError as error:
            raise OutsideError(str(error), retry=True) from error

    async def close(self) -> None:
        """Nothing is held open."""

    async def _poll(self) -> list[Reading]:
        # Texts of a large subnet are long: they are read beside the loop, not in it.
        topology = await asyncio.to_thread(read_topology, (await self._run("ibnetdiscover")).out)
        states = await asyncio.to_thread(read_links, (await self._run("iblinkinfo", "--line")).out)
        said = await self._errors()
        errors = await asyncio.to_thread(read_errors, said.out)
        traffic = Errors()
        if self.settings.traffic:
            traffic = await asyncio.to_thread(read_errors, (await self._errors("--counters")).out)
        ports = self._ports(topology, states)
        whole = not said.complaint and errors.nodes_checked == len(topology.nodes)
        for values in ports.values():
            values.update(dict.fromkeys(ALWAYS_COUNTED, 0) if whole else {})
        for (guid, port), counters in [*errors.ports.items(), *traffic.ports.items()]:
            ports.setdefault(_end_of(topology, guid, port), {}).update(counters)
        for end in self.settings.watched:
            ports.setdefault(end, {}).update(await self._watched(topology, end))
        return [*self._readings(topology, ports), self._account(topology, errors, said.complaint, ports)]

    async def _run(self, program: str, *options: str, good_codes: Sequence[int] = (0,)) -> Said:
        s = self.settings
        where = [*(["--Ca", s.ca] if s.ca else []), *(["--Port", str(s.ca_port)] if s.ca_port else [])]
        return await run_tool([program, *where, *options], timeout_s=s.timeout_s, good_codes=good_codes, env=s.env)

    async def _errors(self, *options: str) -> Said:
        # Its own file of thresholds would hide what is below them. Exit code 1 says that some port has errors.
        return await self._run("ibqueryerrors", "--threshold-file", os.devnull, *options, good_codes=(0, 1))

    async def _watched(self, topology: Topology, end: End) -> dict[str, Value]:
        lid = topology.lid_of(end)
        if not lid:
            raise OutsideError(f"subnet {self.name}: port {end[1]} of {end[0]} is not there", retry=True)
        values: dict[str, Value] = {}
        for options in ((), ("-x",)):
            found = read_perfquery((await self._run("perfquery", *options, str(lid), str(end[1]))).out)
            if found[:2] != (lid, end[1]):
                raise OutsideError(f"perfquery answered for LID {found[0]} port {found[1]}, not {lid} port {end[1]}")
            # Of what both know, the extended ones have 64 bits.
            values |= found[2]
        return values

    def _ports(self, topology: Topology, states: Sequence[LinkLine]) -> dict[End, dict[str, Value]]:
        """Return each port's state; a port that only ibnetdiscover knows has a link and no state."""
        ports: dict[End, dict[str, Value]] = {}
        for line in states:
            end = _end_of(topology, line.guid, line.port)
            values: dict[str, Value] = {"LinkState": line.state, "PhysLinkState": line.phys_state}
            if line.width and line.lane_gbps:
                values |= {"LinkWidthActive": line.width, "LinkSpeedActiveGbps": line.lane_gbps}
                values["LinkRateGbps"] = line.width * line.lane_gbps
            if line.hint:
                values["Hint"] = line.hint
            ports[end] = values
        for end in topology.other_end:
            ports.setdefault(end, {})
        return ports

    def _readings(self, topology: Topology, ports: Mapping[End, Mapping[str, Value]]) -> list[Reading]:
        t_ns = time.time_ns()
        readings = [
            self._told("infiniband", self._labels(topology, end), t_ns, values) for end, values in ports.items()
        ]
        for end, other in topology.other_end.items():
            far: dict[str, Value] = {
                "other_node": name_of(topology.nodes, other[0]),
                "other_guid": other[0],
                "other_port": other[1],
            }
            readings.append(self._told("infiniband.link", self._labels(topology, end), t_ns, far))
        return readings

    def _labels(self, topology: Topology, end: End) -> dict[str, str]:
        return {"node": name_of(topology.nodes, end[0]), "guid": end[0], "port": str(end[1])}

    def _account(self, topology: Topology, errors: Errors, complaint: str, ports: Mapping[End, object]) -> Reading:
        values: dict[str, Value] = {
            "nodes": len(topology.nodes),
            "nodes_checked": errors.nodes_checked,
            "ports": len(ports),
            "ports_checked": errors.ports_checked,
            "links": len(topology.links()),
            "links_told_by_one_end": len(topology.one_sided()),
            "complaint": complaint,
        }
        return self._told("infiniband.reader", {}, time.time_ns(), values)

    def _told(self, dialect: str, labels: Mapping[str, str], t_ns: int, values: Mapping[str, Value]) -> Reading:
        return Reading(self.source, self.name, dialect, {"subnet": self.settings.subnet, **labels}, t_ns, values)


def _end_of(topology: Topology, guid: str, port: int) -> End:
    """Return a port by its node: the programs name a host's port now by the port's guid, now by the node's."""
    found = topology.port_guids.get(guid)
    return found if found is not None and found[1] == port else (guid, port)
