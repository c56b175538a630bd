"""Fault lists for drills: every kind, on every kind of target, in every direction, alone and in groups."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

from railkeeper.fabric.components import links_of
from railkeeper.fabric.faults import KINDS, RULES
from railkeeper.fabric.names import Component, Kind, name_of

if TYPE_CHECKING:
    from railkeeper.fabric.model import Fabric

_DIRECTIONS = ("up", "down", "both")
_GROUP_KINDS = ("loss", "corrupt", "delay", "down", "slow", "blackhole")


def make_faults(fabric: Fabric, *, seed: int, groups: int = 6) -> list[dict[str, Any]]:
    """Return fault-file lines as dictionaries, in random order, members of a group side by side.

    Members of a group share no link and no node, so that each can be told from the others.
    """
    rng = random.Random(seed)  # noqa: S311 (a repeatable drill, not a secret)
    units = [[fault] for fault in _singles(fabric, rng)]
    units += [_group(fabric, rng, f"g{i}") for i in range(groups)]
    rng.shuffle(units)
    lines = [fault for unit in units for fault in unit]
    return [{"id": f"f{i}", **line} for i, line in enumerate(lines)]


def random_faults(fabric: Fabric, *, seed: int, count: int) -> list[dict[str, Any]]:
    """Return `count` faults of kinds, targets, directions and sizes drawn at random, one at a time."""
    rng = random.Random(seed)  # noqa: S311 (a repeatable drill, not a secret)
    lines = []
    for i in range(count):
        kind = rng.choice([k for k in KINDS if k != "optic" or fabric.spec.optics])
        target = _pick(fabric, rng, rng.choice(_targets(fabric, kind)))
        lines.append({"id": f"f{i}", **_fault(fabric, rng, kind, target, rng.choice(_DIRECTIONS))})
    return lines


def _targets(fabric: Fabric, kind: str) -> list[Kind]:
    optics = {Kind.NIC_OPTIC, Kind.T0_OPTIC}
    allowed = RULES[kind].targets - (set() if fabric.spec.optics else optics)
    return sorted(allowed)


def to_text(faults: list[dict[str, Any]]) -> str:
    """Return the text of a fault file."""
    return "".join(json.dumps(fault) + "\n" for fault in faults)


def _singles(fabric: Fabric, rng: random.Random) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    for where in ("host", "fabric"):
        for direction in _DIRECTIONS:
            for kind in ("loss", "corrupt", "delay", "slow"):
                out.append(_fault(fabric, rng, kind, _pick_link(fabric, rng, where), direction))
        out.append(_fault(fabric, rng, "down", _pick_link(fabric, rng, where), "both"))
        out.append(_fault(fabric, rng, "flap", _pick_link(fabric, rng, where), "both"))
        out.append({**_fault(fabric, rng, "loss", _pick_link(fabric, rng, where), "both"), "rate": 0.002})
    out += [_fault(fabric, rng, "down", _pick_link(fabric, rng, "fabric"), d) for d in ("up", "down")]
    for tier in (Kind.T0, Kind.T1):
        for kind in ("blackhole", "reboot", "loss"):
            out.append(_fault(fabric, rng, kind, _pick(fabric, rng, tier), "both"))
    out.append(_fault(fabric, rng, "down", _pick(fabric, rng, Kind.PORT), "both"))
    out += [_fault(fabric, rng, kind, _pick(fabric, rng, Kind.NODE), "both") for kind in ("agent-down", "node-down")]
    if fabric.spec.optics is not None:
        out += [_fault(fabric, rng, "optic", _pick(fabric, rng, k), "both") for k in (Kind.NIC_OPTIC, Kind.T0_OPTIC)]
    return out


def _group(fabric: Fabric, rng: random.Random, name: str) -> list[dict[str, Any]]:
    size, used_links, used_nodes = rng.choice((2, 2, 3)), set[int](), set[int]()
    members: list[dict[str, Any]] = []
    while len(members) < size:
        kind = rng.choice(_GROUP_KINDS)
        target = (
            _pick(fabric, rng, Kind.T1)
            if kind == "blackhole"
            else _pick_link(fabric, rng, rng.choice(("host", "fabric")))
        )
        links = set(links_of(fabric, target).tolist())
        nodes = {int(fabric.node_of(link // fabric.planes)) for link in links if link < fabric.n_ports}
        if links & used_links or nodes & used_nodes:
            continue
        used_links |= links
        used_nodes |= nodes
        direction = "both" if kind in {"blackhole", "down"} else rng.choice(_DIRECTIONS)
        members.append({**_fault(fabric, rng, kind, target, direction), "group": name})
    return members


def _fault(fabric: Fabric, rng: random.Random, kind: str, target: Component, direction: str) -> dict[str, Any]:
    line: dict[str, Any] = {"kind": kind, "target": name_of(fabric, target)}
    if RULES[kind].one_way:
        line["direction"] = direction
    return {**line, **_numbers(fabric, rng, kind)}


def _numbers(fabric: Fabric, rng: random.Random, kind: str) -> dict[str, float]:
    choices: dict[str, dict[str, tuple[float, ...]]] = {
        "loss": {"rate": (0.01, 0.02, 0.05, 0.2, 0.5)},
        "corrupt": {"rate": (0.01, 0.03, 0.1)},
        "delay": {"ms": (1.0, 2.0, 5.0, 20.0)},
        "slow": {"gbps": tuple(fabric.link_gbps * share for share in (0.05, 0.1, 0.25, 0.5))},
        "flap": {"down_s": (1.0, 2.0), "up_s": (2.0, 3.0)},
        "reboot": {"seconds": (8.0, 12.0)},
        "optic": {"seconds": (3.0, 5.0)},
    }
    return {key: rng.choice(values) for key, values in choices.get(kind, {}).items()}


def _pick(fabric: Fabric, rng: random.Random, kind: Kind) -> Component:
    counts = {
        Kind.NODE: fabric.n_nodes,
        Kind.NIC: fabric.n_nics,
        Kind.LINK: fabric.n_links,
        Kind.PORT: fabric.n_ports,
        Kind.T0: fabric.n_t0,
        Kind.T1: fabric.n_t1,
        Kind.NIC_OPTIC: fabric.n_nics * fabric.optics_per_nic,
        Kind.T0_OPTIC: fabric.n_t0 * fabric.optics_per_t0,
    }
    return Component(kind, rng.randrange(counts[kind]))


def _pick_link(fabric: Fabric, rng: random.Random, where: str) -> Component:
    low, high = (0, fabric.n_ports) if where == "host" else (fabric.n_ports, fabric.n_links)
    return Component(Kind.LINK, rng.randrange(low, high))
