"""Ports that go down and come back, and switches that reboot.

Several faults may hold one port down; it comes up with the last. A link that was down has lost routes, neighbours and
addresses: all of these are set again from the plan.
"""

from __future__ import annotations

from collections import defaultdict
from errno import ENOENT, ESRCH
from typing import TYPE_CHECKING

from railkeeper.lab import names, netns, rtnl
from railkeeper.lab.configure import own_sids, restore_end, route_request

if TYPE_CHECKING:
    from collections.abc import Iterable

    from railkeeper.lab.plan import LabPlan

_GONE = frozenset({ENOENT, ESRCH})
_LO = 1


class Ports:
    """Who holds which ports and switches of a lab down."""

    def __init__(self, plan: LabPlan) -> None:
        self._plan = plan
        self._ports: dict[int, set[str]] = defaultdict(set)
        self._switches: dict[int, set[str]] = defaultdict(set)

    def hold(self, ends: Iterable[int], who: str) -> None:
        """Set the ends down, on behalf of `who`."""
        new = [end for end in ends if not self._ports[end]]
        for end in ends:
            self._ports[end].add(who)
        for space, group in self._by_space(new).items():
            self._apply(space, [self._set(end, up=False) for end in group])

    def free(self, ends: Iterable[int], who: str) -> None:
        """Let go of the ends; those that nobody else holds come up as they were."""
        held = [end for end in ends if who in self._ports[end]]
        for end in held:
            self._ports[end].discard(who)
        groups = self._by_space(end for end in held if not self._ports[end])
        for space, group in groups.items():
            self._apply(space, [self._set(end, up=True) for end in group])
        for space, group in groups.items():
            plan = self._plan.space(space)
            self._apply(space, [r for end in group for r in restore_end(self._plan.fabric, plan, end)])

    def halt(self, space: int, who: str) -> None:
        """Stop a switch: its ports and its management go down, its forwarding table is empty."""
        plan = self._plan.space(space)
        self._switches[space].add(who)
        self.hold(plan.ends, who)
        self._apply(space, [rtnl.set_link(_LO, up=False)])
        self._apply(space, [rtnl.del_route(r.prefix, r.bits) for r in own_sids(plan)], _GONE)

    def boot(self, space: int, who: str) -> None:
        """Start a switch again, unless another fault holds it."""
        plan = self._plan.space(space)
        self._switches[space].discard(who)
        if not self._switches[space]:
            sids = [route_request(self._plan.fabric, r) for r in own_sids(plan)]
            self._apply(space, [rtnl.set_link(_LO, up=True), *sids])
        self.free(plan.ends, who)

    def _set(self, end: int, *, up: bool) -> bytes:
        return rtnl.set_link(names.index_of_end(self._plan.fabric, end), up=up)

    def _by_space(self, ends: Iterable[int]) -> dict[int, list[int]]:
        out: dict[int, list[int]] = defaultdict(list)
        for end in ends:
            out[names.space_of_end(self._plan.fabric, end)].append(end)
        return out

    def _apply(self, space: int, requests: list[bytes], ignore: frozenset[int] = frozenset()) -> None:
        name = self._plan.space_names[space]
        with netns.entered(name), rtnl.RouteSocket() as s:
            s.apply(requests, name, ignore=ignore)
