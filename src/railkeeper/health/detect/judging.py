"""What detectors of flows share: verdicts, columns summed over parts, words."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.detect.finding import V_NO_DATA, V_OK, V_SKIPPED, VERDICTS, Finding, Judged
from railkeeper.health.detect.known import column, columns_of
from railkeeper.health.detect.together import Owners, together

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    from railkeeper.health.detect.view import View

    Floats = npt.NDArray[np.float32]
    Verdicts = npt.NDArray[np.uint8]


def part_columns(view: View, signal: str) -> list[tuple[str, Floats]]:
    """Return (name, column) of a signal, whole or in parts, as the frame has it."""
    found = [(name, column(view, name)) for name in columns_of(view, (signal,))]
    return [(name, values) for name, values in found if values is not None]


def summed(view: View, signal: str) -> Floats | None:
    """Return (n,) the sum over a signal's parts, NaN where no part is known; None where the frame has none."""
    found = [values for _, values in part_columns(view, signal)]
    if len(found) < 2:
        return found[0] if found else None
    total = np.where(np.isnan(found[0]), np.float32(0), found[0])
    dark = np.isnan(found[0])
    for values in found[1:]:
        np.add(total, values, out=total, where=~np.isnan(values))
        dark &= np.isnan(values)
    total[dark] = np.nan
    return total


def first_verdicts(needs: Sequence[Floats], judged: Verdicts) -> Verdicts:
    """Return (n,) verdicts before any finding, from what was read.

    - needs: columns of which at least one must be known; with none at all nothing was read
    - judged: (n,) V_OK for entities that the detector judges, V_SKIPPED for those that it is not about
    """
    verdicts = judged.copy()
    dark = np.flatnonzero((judged == V_OK) & np.isnan(needs[0])) if needs else np.flatnonzero(judged == V_OK)
    for values in needs[1:]:
        dark = dark[np.isnan(values[dark])]
    verdicts[dark] = V_NO_DATA
    return verdicts


def roles_judged(role: npt.NDArray[np.int8], *roles: int) -> Verdicts:
    """Return (n,) V_OK for entities of these roles (all, if none is given), V_SKIPPED for all others."""
    if not roles:
        return np.full(len(role), V_OK, dtype=np.uint8)
    return np.where(np.isin(role, roles), V_OK, V_SKIPPED).astype(np.uint8)


def concluded(findings: Iterable[Finding], verdicts: Verdicts, kind: str) -> Judged:
    """Return what is said in the end: the findings, by entity, and their verdicts among those of all entities."""
    ordered = tuple(sorted(findings, key=lambda f: (f.kind, f.entity, f.signal)))
    for finding in sorted(ordered, key=lambda f: VERDICTS.index(f.verdict)):
        if finding.kind == kind:
            verdicts[finding.entity] = VERDICTS.index(finding.verdict)
    return Judged(ordered, verdicts)


def told_together(owners: Owners, findings: Sequence[Finding], verdicts: Verdicts, kind: str) -> Judged:
    """Return what is said in the end, with findings that one part explains told as one: the worst of them.

    `findings` are of one kind, ascending by entity, one an entity. All members keep their verdicts.
    """
    judged = concluded(findings, verdicts, kind)
    groups = together(owners, np.array([f.entity for f in findings], dtype=np.int32))
    return Judged(tuple(_one_of([findings[i] for i in g.members], g.words) for g in groups), judged.verdicts)


def _one_of(findings: list[Finding], words: str) -> Finding:
    if len(findings) == 1:
        return findings[0]
    worst = max(findings, key=lambda f: (VERDICTS.index(f.verdict), f.value / max(f.expected, 1e-30), -f.entity))
    others = {f.entity for f in findings} | {o for f in findings for o in f.others}
    return replace(
        worst, evidence=(words, *worst.evidence), since_s=min(f.since_s for f in findings),
        others=tuple(sorted(others - {worst.entity})),
    )  # fmt: skip


def number(value: float) -> str:
    """Return a number for people, three digits: 0.012, 3.4, 120, 45.2k, 1.2M."""
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if letter == 'k' else size):.3g}{letter}"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def percent(share: float) -> str:
    """Return a share as per cent, three digits."""
    return f"{100 * share:.3g}%"


def both_ends(view: View, port: int, signals: Iterable[str]) -> tuple[str, ...]:
    """Return lines of what else is wrong at either end of a port's link: rates above 0 of these signals."""
    other = int(view.entities.other[port])
    lines = []
    for end, where in ((port, "here"), (other, "other end")):
        if end < 0:
            continue
        said = [f"{name} {number(float(c[end]))}/s" for s in signals for name, c in part_columns(view, s) if c[end] > 0]
        if said:
            lines.append(f"{where} ({view.entities.name_of(end)}): {', '.join(said)}")
    return tuple(lines)


def with_lines(finding: Finding, *lines: str) -> Finding:
    """Return a finding with lines added to its evidence."""
    return replace(finding, evidence=(*finding.evidence, *lines))
