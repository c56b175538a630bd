"""Builds a lab and takes it down."""

from __future__ import annotations

import contextlib
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Self

from railkeeper.base.errors import InputError, OutsideError
from railkeeper.lab import names, netns, rtnl, state
from railkeeper.lab.capability import check_capability, sid_kind
from railkeeper.lab.configure import configure
from railkeeper.lab.plan import LabPlan
from railkeeper.lab.verify import verify, verify_spaces

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from railkeeper.fabric.model import Fabric

# No duplicate detection, no automatic link-local addresses, no router solicitations: what moves is what we send,
# but for a few multicast reports after a link comes up.
_EVERYWHERE = {
    "net/ipv6/conf/all/disable_ipv6": "0",
    "net/ipv6/conf/default/disable_ipv6": "0",
    "net/ipv6/conf/default/accept_dad": "0",
    "net/ipv6/conf/default/addr_gen_mode": "1",
    "net/ipv6/conf/default/accept_ra": "0",
}
_ON_SWITCHES = {"net/ipv6/conf/all/forwarding": "1", "net/ipv6/icmp/ratelimit": "0"}
MAX_SPACES = 4096
MAX_LINKS = 32_768
_WORKERS = 2
_SHARE = 16
_PATIENCE_S = 5.0
_LINKS_AT_ONCE = 256  # each takes a file descriptor


class Lab:
    """A running lab; `close()` or leaving the `with` block takes it down wholly."""

    def __init__(self, plan: LabPlan, state_dir: Path) -> None:
        self.plan = plan
        self._state_dir = state_dir
        self._at_close: list[Callable[[], None]] = []
        self._open = True

    @property
    def fabric(self) -> Fabric:
        """The fabric that the lab is of."""
        return self.plan.fabric

    @property
    def prefix(self) -> str:
        """What the names of the lab's namespaces begin with."""
        return self.plan.prefix

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def at_close(self, action: Callable[[], None]) -> None:
        """Have something done before the namespaces go; the last registered is done first."""
        self._at_close.append(action)

    def verify(self, *, patience_s: float = 1.0) -> list[str]:
        """Return how the lab differs from its plan; empty when it does not, or no longer does within `patience_s`.

        A link that has just come up needs a moment of patience.
        """
        return verify(self.plan, patience_s=patience_s)

    def close(self) -> None:
        """Take the lab down: helpers first, then all namespaces, then the note of it. Again is no error."""
        if not self._open:
            return
        self._open = False
        with contextlib.ExitStack() as stack:
            stack.callback(state.release, self.prefix, self._state_dir)
            stack.callback(netns.remove, self.plan.space_names)
            for action in self._at_close:
                stack.callback(action)


def build(fabric: Fabric, prefix: str = "rk", *, state_dir: Path = state.STATE_DIR) -> Lab:
    """Build the lab of a fabric and check all of it against the plan.

    Raises CapabilityError where the machine can't, InputError for a bad prefix or a fabric that is too large,
    OutsideError where something else failed; then nothing is left behind.
    """
    _check_size(fabric)
    check_capability()
    plan = LabPlan(fabric, names.check_prefix(prefix))
    state.claim(prefix, plan.space_names, state_dir)
    lab = Lab(plan, state_dir)
    try:
        _build(plan)
    except BaseException:
        lab.close()
        raise
    return lab


def clean_stale(state_dir: Path = state.STATE_DIR) -> list[str]:
    """Remove what killed labs left, and only that; returns the names of the namespaces removed."""
    return state.clean_stale(state_dir)


def _check_size(fabric: Fabric) -> None:
    spaces = fabric.n_nodes + fabric.n_t0 + fabric.n_t1
    if spaces > MAX_SPACES or fabric.n_links > MAX_LINKS:
        raise InputError(
            f"fabric {fabric.name}",
            f"needs {spaces} namespaces and {fabric.n_links} links",
            f"a lab holds at most {MAX_SPACES} and {MAX_LINKS}",
        )


def _build(plan: LabPlan) -> None:
    f = plan.fabric
    netns.prepare_dir()
    with ThreadPoolExecutor(_WORKERS, thread_name_prefix="lab-build") as pool:
        everyone = _shares(range(plan.n_spaces))
        _all(pool, _create, plan, everyone)
        _all(pool, _connect, plan, _shares(range(f.n_nodes, plan.n_spaces)))
        _all(pool, _configure, plan, everyone)
        problems = _all(pool, verify_spaces, plan, everyone)
    if problems:
        problems = verify(plan, patience_s=_PATIENCE_S)
    if problems:
        raise OutsideError(f"the lab is not as planned in {len(problems)} places, e.g. {problems[0]}")


def _shares(spaces: range) -> list[range]:
    return [spaces[i : i + _SHARE] for i in range(0, len(spaces), _SHARE)]


def _all(
    pool: ThreadPoolExecutor, work: Callable[[LabPlan, range], list[str]], plan: LabPlan, shares: list[range]
) -> list[str]:
    return [problem for part in pool.map(work, [plan] * len(shares), shares) for problem in part]


def _create(plan: LabPlan, spaces: range) -> list[str]:
    switches = set(plan.space_names[plan.fabric.n_nodes :])

    def setup(name: str) -> None:
        for path, value in (_EVERYWHERE | _ON_SWITCHES if name in switches else _EVERYWHERE).items():
            netns.write_sysctl(path, value)
        with rtnl.RouteSocket() as s:
            s.apply([rtnl.set_link(1, up=True)], f"{name}: lo")

    netns.create([plan.space_names[i] for i in spaces], setup)
    return []


def _connect(plan: LabPlan, spaces: range) -> list[str]:
    """Create the links of switches to what is below them."""
    with netns.own_restored():
        for i in spaces:
            space = plan.space(i)
            netns.enter(space.name)
            with rtnl.RouteSocket() as s:
                below = [end for end in space.ends if end % 2]
                for at in range(0, len(below), _LINKS_AT_ONCE):
                    _connect_down(plan, s, below[at : at + _LINKS_AT_ONCE], space.name)
    return []


def _connect_down(plan: LabPlan, socket: rtnl.RouteSocket, ends: Sequence[int], name: str) -> None:
    f = plan.fabric
    with contextlib.ExitStack() as stack:
        requests = []
        for end in ends:
            fd = netns.open_fd(plan.name_of_end(end ^ 1))
            stack.callback(os.close, fd)
            requests.append(rtnl.new_veth(_veth_end(f, end), _veth_end(f, end ^ 1), fd))
        socket.apply(requests, f"{name}: links")


def _veth_end(fabric: Fabric, end: int) -> rtnl.VethEnd:
    name, number = names.interface_of_end(fabric, end), names.index_of_end(fabric, end)
    return rtnl.VethEnd(name, number, names.mac_of_end(end))


def _configure(plan: LabPlan, spaces: range) -> list[str]:
    kind = sid_kind()
    with netns.own_restored():
        for i in spaces:
            space = plan.space(i)
            netns.enter(space.name)
            with rtnl.RouteSocket() as s:
                s.apply(configure(plan.fabric, space, kind), space.name)
    return []
