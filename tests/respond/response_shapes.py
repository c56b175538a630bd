"""Small fabrics and faults for the tests of the response."""

from __future__ import annotations

from dataclasses import replace

from railkeeper.fabric.components import links_of
from railkeeper.fabric.model import Fabric
from railkeeper.fabric.names import parse_name
from railkeeper.fabric.spec import parse_spec
from railkeeper.respond.faultview import FaultRecord


def fabric(planes=2, t0=4, t1=4, nics=4, per_node=1, rails=1) -> Fabric:
    return Fabric(
        parse_spec(
            f"[fabric]\nplanes={planes}\nt0_per_plane={t0}\nt1_per_plane={t1}\nnics_per_t0={nics}\n"
            f"nics_per_node={per_node}\nrails={rails}\n"
        )
    )


SMALL = fabric()


def directed(target: str, direction: str = "both", f: Fabric = SMALL) -> tuple[int, ...]:
    links = links_of(f, parse_name(f, target)).tolist()
    ways = {"up": (0,), "down": (1,), "both": (0, 1)}[direction]
    return tuple(sorted(2 * link + way for link in links for way in ways))


def fault(target: str, kind: str = "loss", direction: str = "both", *, f: Fabric = SMALL, **changes) -> FaultRecord:
    made = FaultRecord(
        key=f"{kind}@{target}",
        target=target,
        kind=kind,
        direction=direction,
        rate=0.05 if kind in {"loss", "corrupt"} else 0.0,
        confidence=0.999,
        evidence=("a row of evidence",),
        denied_links=() if kind == "agent-down" else directed(target, direction, f),
        network=kind != "agent-down",
    )
    return replace(made, **changes)


def cleared(made: FaultRecord) -> FaultRecord:
    return replace(made, status="cleared")
