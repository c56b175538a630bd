"""Faults from evidence of every kind, told together with where the kinds agree and where they do not."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from railkeeper.health.fleet.space import PartSpace
from railkeeper.health.fuse.evidence import Evidence, check_evidence
from railkeeper.health.fuse.pose import NOTHING, explain_rows, explain_totals, known_rows
from railkeeper.health.fuse.tell import Telling
from railkeeper.health.fuse.words import link_words, odds_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from railkeeper.fabric.model import Fabric
    from railkeeper.health.detect.finding import Finding
    from railkeeper.health.fault import Fault
    from railkeeper.health.fuse.evidence import FlowTotals, PathTable
    from railkeeper.probe.pathstats import PathStats
    from railkeeper.telemetry.ports import PortStates

FALSE_ALARMS = 1e-3  # in a span of time in which nothing is wrong


def fuse(
    fabric: Fabric,
    *,
    probes: PathStats | None = None,
    ev_tables: PathTable | None = None,
    flow_totals: FlowTotals | None = None,
    bad_flows: PathTable | None = None,
    findings: Sequence[Finding] = (),
    clean: Sequence[int] = (),
    ports: PortStates | None = None,
    tick: int = 0,
    false_alarms: float = FALSE_ALARMS,
    space: PartSpace | None = None,
) -> tuple[Fault, ...]:
    """Return the faults that all evidence of one span of time together shows; see `Evidence` for its kinds.

    What can't be told apart is one fault with all names. `false_alarms`: how many by chance, in a span in which nothing
    is wrong; `space`: its parts, where the caller keeps them. Raises InputError for evidence of another fabric.
    """
    e = Evidence(probes, ev_tables, bad_flows, flow_totals, findings, clean, ports)
    check_evidence(fabric, e)
    space, words, rows = space or PartSpace(fabric), link_words(fabric, e), known_rows(fabric, e)
    least = math.log(3 * space.n_parts / false_alarms)
    by_path = explain_rows(space, rows, odds_of(words), least) if len(rows.sent) else NOTHING
    by_total = NOTHING if flow_totals is None or not len(flow_totals) else explain_totals(space, flow_totals, least)
    return Telling(space, e, rows, words, tick).faults(by_path, by_total)
