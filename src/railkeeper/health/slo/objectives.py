"""Service level objectives: error budgets, and alerts by the rate at which these burn, over two windows each.

burn rate = (bad / total in the window) / (1 - objective); budget used = burn rate * window / period. An alert needs
both its windows above its rate: the long one so that it matters, the short one so that it is still going on.
Source: Google's SRE Workbook, chapter 5, "Multiwindow, Multi-Burn-Rate Alerts".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from railkeeper.health.slo.scopes import kind_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from railkeeper.health.slo.series import Series

DAY_S = 86400.0
# A job that has said nothing for so long is over.
JOB_OVER_S = 3600.0
PAGE, TICKET, OK, NO_DATA = "page", "ticket", "ok", "no data"


@dataclass(frozen=True)
class BurnAlert:
    """Fires when the budget burns at `burn` or quicker over both windows (s)."""

    burn: float
    long_s: float
    short_s: float
    severity: str


# For a period of 30 days: 2% of the budget in an hour, 5% in six hours, 10% in one day and in three.
DEFAULT_ALERTS = (
    BurnAlert(14.4, 3600, 300, PAGE),
    BurnAlert(6, 21600, 1800, PAGE),
    BurnAlert(3, DAY_S, 7200, TICKET),
    BurnAlert(1, 3 * DAY_S, 21600, TICKET),
)


@dataclass(frozen=True)
class Slo:
    """One objective, for every scope of a kind.

    - sli, scope: indicator and kind of scope; objective: share that must be good, below 1
    - period_s: over which the error budget is kept
    - least_total: amount below which a window says nothing (low traffic)
    """

    name: str
    sli: str
    scope: str
    objective: float
    period_s: float = 30 * DAY_S
    least_total: float = 1.0
    alerts: tuple[BurnAlert, ...] = field(default=DEFAULT_ALERTS)


DEFAULT_SLOS = (
    Slo("fabric-loss", "packet-loss", "fabric", 0.9999, least_total=10_000),
    Slo("plane-loss", "packet-loss", "plane", 0.9999, least_total=10_000),
    Slo("group-loss", "packet-loss", "t0-group", 0.999, least_total=10_000),
    Slo("delivery", "delivery", "plane", 0.9999, least_total=100_000),
    Slo("congestion", "congestion", "plane", 0.99, least_total=10_000),
    Slo("link-health", "link-health", "fabric", 0.999),
    Slo("path-diversity", "path-diversity", "plane", 0.99),
    Slo("group-diversity", "path-diversity", "t0-group", 0.95),
    Slo("bandwidth", "bandwidth", "plane", 0.99, least_total=100),
    Slo("tail-latency", "tail-latency", "plane", 0.999, least_total=10_000),
    Slo("collective", "collective", "job", 0.99, least_total=10),
    Slo("job-impact", "job-impact", "fabric", 0.995, least_total=10),
)


@dataclass(frozen=True)
class Level:
    """How an objective stands in one scope.

    - ratio: good share over the period, None without data; budget_left: share of the error budget, below 0 when it is
      overspent
    - burns: window (s) -> burn rate, None where the window has too little data
    - state: "page", "ticket", "ok" or "no data"; fired: the alert that says so
    """

    slo: Slo
    scope: str
    good: float
    total: float
    ratio: float | None
    budget_left: float | None
    burns: dict[float, float | None]
    state: str
    fired: BurnAlert | None


class _Totals:
    """Sums over windows, of all tracks at once: (n_tracks, 2) by window, made when first asked for."""

    def __init__(self, series: Series, now_s: float) -> None:
        self._series, self._now_s = series, now_s
        self._known: dict[float, Any] = {}

    def of(self, track: int, window_s: float) -> tuple[float, float]:
        """Return good and total amounts of a track over a window."""
        found = self._known.get(window_s)
        if found is None:
            found = self._known[window_s] = self._series.totals(self._now_s, window_s).tolist()
        good, total = found[track]
        return good, total


def levels(
    slos: tuple[Slo, ...], series: Series, now_s: float, here: Collection[str] | None = None
) -> tuple[Level, ...]:
    """Return how every objective stands in each scope of its kind that has ever said anything.

    Scopes that are not `here` have no level: jobs that are over, planes of another fabric. If that is not known, jobs
    that have said nothing for JOB_OVER_S are over.
    """
    totals = _Totals(series, now_s)
    wanted: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for (sli, scope), track in series.tracks.items():
        kind = kind_of(scope)
        if scope in here if here is not None else kind != "job" or totals.of(track, JOB_OVER_S)[1] > 0:
            wanted.setdefault((sli, kind), []).append((scope, track))
    return tuple(
        _level(slo, scope, track, totals) for slo in slos for scope, track in wanted.get((slo.sli, slo.scope), ())
    )


def level(slo: Slo, scope: str, series: Series, now_s: float) -> Level:
    """Return how an objective stands in one scope at a time (unix s)."""
    track = series.tracks.get((slo.sli, scope))
    return _level(slo, scope, track, _Totals(series, now_s))


def _level(slo: Slo, scope: str, track: int | None, totals: _Totals) -> Level:
    def over(window_s: float) -> tuple[float, float]:
        return (0.0, 0.0) if track is None else totals.of(track, window_s)

    good, total = over(slo.period_s)
    windows = sorted({w for a in slo.alerts for w in (a.long_s, a.short_s)})
    burns = {w: burn_rate(slo, *over(w)) for w in windows}
    used = burn_rate(slo, good, total)
    fired = next((a for a in slo.alerts if _burns(burns[a.long_s], a) and _burns(burns[a.short_s], a)), None)
    return Level(
        slo, scope, good, total,
        ratio=good / total if total > 0 else None,
        budget_left=None if used is None else 1.0 - used,
        burns=burns, state=_state(fired, burns or {slo.period_s: used}), fired=fired,
    )  # fmt: skip


def burn_rate(slo: Slo, good: float, total: float) -> float | None:
    """Return how many times quicker than allowed the budget is used; None where there is too little to say."""
    if total <= 0 or total < slo.least_total:
        return None
    return (1.0 - good / total) / (1.0 - slo.objective)


def _burns(rate: float | None, alert: BurnAlert) -> bool:
    # Sums of shares are not exact: a rate that equals the limit must count on every machine.
    return rate is not None and rate >= alert.burn * (1 - 1e-9)


def _state(fired: BurnAlert | None, burns: dict[float, float | None]) -> str:
    if fired is not None:
        return fired.severity
    # Without the shortest window nothing is known of now.
    return NO_DATA if burns[min(burns)] is None else OK
