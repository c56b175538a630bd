"""What may be known of a network beside probes, each as columns. Any of it may be missing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.base.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from railkeeper.fabric.model import Fabric
    from railkeeper.health.detect.finding import Finding
    from railkeeper.probe.pathstats import PathStats
    from railkeeper.telemetry.ports import PortStates

    Ints = npt.NDArray[np.int32]
    Longs = npt.NDArray[np.int64]


@dataclass(frozen=True)
class PathTable:
    """Packets sent and lost by path, as a transport's table of entropy values holds them; columns (n,).

    - src, dst: NICs; plane; t1: index within the plane, -1 where both NICs sit under one T0
    - sent, lost: packets, 0 <= lost <= sent

    A path may stop being used at its first loss: the likelihood of what was sent until then is the same, whatever made
    it stop, so that censored rows need no care. Rows of paths that were never used say nothing and may be left out.
    """

    src: Ints
    dst: Ints
    plane: Ints
    t1: Ints
    sent: Longs
    lost: Longs

    def __len__(self) -> int:
        return len(self.src)


@dataclass(frozen=True)
class FlowTotals:
    """Packets sent and lost by pair of NICs, spread evenly over all planes and all T1s of each; columns (n,)."""

    src: Ints
    dst: Ints
    sent: Longs
    lost: Longs

    def __len__(self) -> int:
        return len(self.src)


@dataclass(frozen=True)
class Evidence:
    """All that is known of one span of time.

    - probes: rows with both halves
    - ev_tables: paths of traffic, with and without losses
    - bad_flows: paths of traffic of which only those with a loss were reported
    - flow_totals: traffic whose paths are not told apart
    - findings: of detectors, on ports; clean: directed links whose counters were read at both ends and show nothing
      of this direction
    - ports: port states
    """

    probes: PathStats | None = None
    ev_tables: PathTable | None = None
    bad_flows: PathTable | None = None
    flow_totals: FlowTotals | None = None
    findings: Sequence[Finding] = ()
    clean: Sequence[int] = field(default_factory=tuple)
    ports: PortStates | None = None


def check_evidence(fabric: Fabric, e: Evidence) -> None:
    """Raise InputError, naming table and column, unless evidence can be of a fabric."""
    for name, table in (("ev_tables", e.ev_tables), ("bad_flows", e.bad_flows)):
        if table is not None:
            _within(f"{name}: plane", table.plane, 0, fabric.planes)
            _within(f"{name}: t1", table.t1, -1, fabric.t1_per_plane)
            _check_flows(fabric, name, table)
    if e.flow_totals is not None:
        _check_flows(fabric, "flow_totals", e.flow_totals)
    if e.bad_flows is not None and (e.bad_flows.lost <= 0).any():
        raise InputError("bad_flows: lost", "is 0", "only flows that lost something; others belong into ev_tables")
    _within("clean", np.asarray(e.clean, dtype=np.int64), 0, 2 * fabric.n_links)


def _check_flows(fabric: Fabric, name: str, table: PathTable | FlowTotals) -> None:
    columns = {k: v for k, v in vars(table).items() if isinstance(v, np.ndarray)}
    if len({len(c) for c in columns.values()}) > 1:
        raise InputError(name, "columns are not of one length", "one value a row in each")
    for end in ("src", "dst"):
        _within(f"{name}: {end}", columns[end], 0, fabric.n_nics)
    if (table.src == table.dst).any():
        raise InputError(f"{name}: dst", "is the source itself", "another NIC")
    if (fabric.nic_rail[table.src] != fabric.nic_rail[table.dst]).any():
        raise InputError(f"{name}: dst", "is of another rail than the source", "a NIC of the same rail")
    if ((table.lost < 0) | (table.lost > table.sent)).any():
        raise InputError(f"{name}: lost", "is below 0 or more than was sent", "0 <= lost <= sent")


def _within(where: str, values: npt.NDArray[np.integer], low: int, limit: int) -> None:
    if len(values) and (values.min() < low or values.max() >= limit):
        raise InputError(where, f"is from {values.min()} to {values.max()}", f"{low} to {limit - 1}")
