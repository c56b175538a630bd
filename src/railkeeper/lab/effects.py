"""What each kind of fault does to a lab: one effect that can be put on and taken off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from railkeeper.base.errors import InputError
from railkeeper.fabric.components import links_of
from railkeeper.fabric.names import Kind
from railkeeper.lab import filters
from railkeeper.lab.delay import Delays
from railkeeper.lab.filters import Filter
from railkeeper.lab.portstate import Ports
from railkeeper.lab.shaping import Shapers, lab_bps

if TYPE_CHECKING:
    from collections.abc import Callable

    from railkeeper.fabric.faults import InjectedFault
    from railkeeper.lab.plan import LabPlan

AGENT_ROLE = "agent"


class Processes(Protocol):
    """What the injector needs of those who run processes in nodes (see crew.py)."""

    def kill(self, role: str, node: int) -> None:
        """End a process at once; it stays away until `restart`."""

    def restart(self, role: str, node: int) -> None:
        """Start a killed process again."""

    def roles_of(self, node: int) -> tuple[str, ...]:
        """Return the roles that a node has processes for."""


class Effect(Protocol):
    """Something that can be put onto the lab and taken off; both may be called again without harm."""

    def start(self) -> None:
        """Put it on."""

    def stop(self) -> None:
        """Take it off."""


@dataclass(frozen=True)
class _Pair:
    """An effect made of two calls."""

    start: Callable[[], None]
    stop: Callable[[], None]


class Effects:
    """Makes effects for one lab, and owns what they share: held ports, shapers, delays."""

    def __init__(self, plan: LabPlan, crew: Processes | None) -> None:
        self._plan, self._crew = plan, crew
        self._ports, self._shapers, self._delays = Ports(plan), Shapers(plan), Delays(plan)
        self._makers: dict[str, Callable[[InjectedFault, str], Effect]] = {
            "loss": self._loss,
            "corrupt": self._corrupt,
            "slow": self._slow,
            "delay": self._delay,
            "down": self._down,
            "flap": self._down,
            "blackhole": self._blackhole,
            "reboot": self._reboot,
            "optic": self._down,
            "agent-down": self._agent_down,
            "node-down": self._node_down,
        }

    def make(self, fault: InjectedFault, who: str) -> Effect:
        """Return the effect of a fault; `who` is a name of its own, fit for an nft table."""
        return self._makers[fault.kind](fault, who)

    def close(self) -> None:
        """End the helpers."""
        self._delays.close()

    def _loss(self, fault: InjectedFault, who: str) -> Effect:
        return Filter(self._plan, who, self._receiving(fault), filters.loss_rule(fault.rate))

    def _corrupt(self, fault: InjectedFault, who: str) -> Effect:
        return Filter(self._plan, who, self._receiving(fault), filters.corrupt_rule(fault.rate))

    def _slow(self, fault: InjectedFault, who: str) -> Effect:
        ends, bps = self._sending(fault), lab_bps(fault.gbps, self._plan.fabric.link_gbps)
        return _Pair(lambda: self._shapers.add(ends, who, bps), lambda: self._shapers.remove(ends, who))

    def _delay(self, fault: InjectedFault, who: str) -> Effect:
        ends, delay_ns = self._receiving(fault), round(fault.ms * 1e6)
        return _Pair(lambda: self._delays.add(ends, who, delay_ns), lambda: self._delays.remove(ends, who))

    def _down(self, fault: InjectedFault, who: str) -> Effect:
        """Cut links: a port can only be down as a whole, so one direction alone is a filter that lets nothing by."""
        if fault.direction != "both":
            return Filter(self._plan, who, self._receiving(fault), filters.DROP_ALL)
        ends = [2 * link + side for link in self._links(fault) for side in (0, 1)]
        return _Pair(lambda: self._ports.hold(ends, who), lambda: self._ports.free(ends, who))

    def _blackhole(self, fault: InjectedFault, who: str) -> Effect:
        return Filter(self._plan, who, self._plan.space(self._switch(fault)).ends, filters.DROP_ALL)

    def _reboot(self, fault: InjectedFault, who: str) -> Effect:
        space = self._switch(fault)
        return _Pair(lambda: self._ports.halt(space, who), lambda: self._ports.boot(space, who))

    def _agent_down(self, fault: InjectedFault, _who: str) -> Effect:
        crew, node = self._need_crew(fault), fault.target.id
        return _Pair(lambda: crew.kill(AGENT_ROLE, node), lambda: crew.restart(AGENT_ROLE, node))

    def _node_down(self, fault: InjectedFault, who: str) -> Effect:
        """Stop a node: its own ports go down, its switches see that, its processes are gone."""
        node, ends = fault.target.id, self._plan.space(fault.target.id).ends
        roles = self._crew.roles_of(node) if self._crew else ()

        def start() -> None:
            for role in roles:
                self._need_crew(fault).kill(role, node)
            self._ports.hold(ends, who)

        def stop() -> None:
            self._ports.free(ends, who)
            for role in roles:
                self._need_crew(fault).restart(role, node)

        return _Pair(start, stop)

    def _need_crew(self, fault: InjectedFault) -> Processes:
        if self._crew is None:
            raise InputError(f"fault {fault.id}: kind", f"is {fault.kind!r}", "this lab runs no agents")
        return self._crew

    # -- where ------------------------------------------------------------------------------------
    def _links(self, fault: InjectedFault) -> list[int]:
        return [int(link) for link in links_of(self._plan.fabric, fault.target)]

    def _sending(self, fault: InjectedFault) -> list[int]:
        sides = {"up": (0,), "down": (1,), "both": (0, 1)}[fault.direction]
        return [2 * link + side for link in self._links(fault) for side in sides]

    def _receiving(self, fault: InjectedFault) -> list[int]:
        return [end ^ 1 for end in self._sending(fault)]

    def _switch(self, fault: InjectedFault) -> int:
        kind, i = fault.target
        return self._plan.space_of_t0(i) if kind is Kind.T0 else self._plan.space_of_t1(i)
