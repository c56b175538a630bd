"""Small fabrics that several tests share."""

from __future__ import annotations

from railkeeper.fabric.model import Fabric
from railkeeper.fabric.spec import parse_spec


def fabric(planes=2, t0=4, t1=4, nics=4, per_node=1, rails=1):
    return Fabric(
        parse_spec(
            f"[fabric]\nplanes={planes}\nt0_per_plane={t0}\nt1_per_plane={t1}\nnics_per_t0={nics}\n"
            f"nics_per_node={per_node}\nrails={rails}\n"
        )
    )
