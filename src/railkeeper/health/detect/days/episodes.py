"""Episodes of simulated days: short things that are life, and maintenance. Drawn before the days begin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.detect.days.jobs import DAY_S, HOUR_S

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.fabric.model import Fabric

# A port that was touched may still look odd for so long: counters restart, paths come back.
SETTLE_S = 900.0


@dataclass(frozen=True)
class Episodes:
    """Episodes of one kind over some entities: (m,) who, from when to when, how strong (0-1)."""

    who: npt.NDArray[np.int64]
    start_s: npt.NDArray[np.float64]
    end_s: npt.NDArray[np.float64]
    strength: npt.NDArray[np.float64]

    def at(self, t_s: float, n: int) -> npt.NDArray[np.float64]:
        """Return (n,) strengths at a time; 0 where there is none."""
        out = np.zeros(n)
        now = (self.start_s <= t_s) & (t_s < self.end_s)
        np.maximum.at(out, self.who[now], self.strength[now])
        return out


def draw_episodes(
    rng: np.random.Generator, n: int, days: float, per_day: float, longest_s: float
) -> Episodes:  # fmt: skip
    """Return episodes at random over n entities: so many a day each, of about 40 s, none longer than longest_s."""
    m = rng.poisson(n * days * per_day)
    start = rng.uniform(0, days * DAY_S, m)
    length = np.clip(rng.lognormal(np.log(40.0), 0.9, m), 5.0, longest_s)
    return Episodes(rng.integers(0, n, m), start, start + length, rng.uniform(0.2, 1.0, m))


@dataclass(frozen=True)
class Outages:
    """Maintenance and single blips: (m,) links, from when to when they are down.

    - admin: the lower end was switched off by its configuration (else the other end is simply gone)
    - restarts: (s,) switches (T0s, then T1s) that restart, and when they answer again
    """

    link: npt.NDArray[np.int64]
    start_s: npt.NDArray[np.float64]
    end_s: npt.NDArray[np.float64]
    admin: npt.NDArray[np.bool_]
    switch: npt.NDArray[np.int64]
    silent_s: npt.NDArray[np.float64]
    back_s: npt.NDArray[np.float64]

    def down(self, t_s: float, n_links: int) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Return (n_links,) which links are down, and which of these by configuration."""
        down, admin = np.zeros((2, n_links), dtype=np.bool_)
        now = (self.start_s <= t_s) & (t_s < self.end_s)
        down[self.link[now]] = True
        admin[self.link[now & self.admin]] = True
        return down, admin

    def touched(self, t_s: float, n_links: int) -> npt.NDArray[np.bool_]:
        """Return (n_links,) which links are down, or have been within SETTLE_S."""
        out = np.zeros(n_links, dtype=np.bool_)
        out[self.link[(self.start_s <= t_s) & (t_s < self.end_s + SETTLE_S)]] = True
        return out

    def silent(self, t_s: float, n_switches: int) -> npt.NDArray[np.bool_]:
        """Return (n_switches,) which switches restart now and answer nobody."""
        out = np.zeros(n_switches, dtype=np.bool_)
        out[self.switch[(self.silent_s <= t_s) & (t_s < self.back_s)]] = True
        return out


def plan_outages(fabric: Fabric, rng: np.random.Generator, days: float) -> Outages:
    """Return what is down when: each day a few nodes off for repair, two switches restarted, some links that blink."""
    rows: list[tuple[npt.NDArray[np.int64], float, float, bool]] = []
    switch, silent, back = [], [], []
    for day in range(int(np.ceil(days))):
        base = day * DAY_S
        for node in rng.integers(0, fabric.n_nodes, 3):
            begin = base + float(rng.uniform(0, 0.8)) * DAY_S
            rows.append((_links_of_node(fabric, int(node)), begin, begin + float(rng.uniform(0.3, 4)) * HOUR_S, True))
        for s in (int(rng.integers(fabric.n_t0)), fabric.n_t0 + int(rng.integers(fabric.n_t1))):
            begin = base + float(rng.uniform(0.1, 0.9)) * DAY_S
            end = begin + float(rng.uniform(150, 300))
            rows.append((_links_of_switch(fabric, s), begin, end, False))
            switch.append(s)
            silent.append(begin)
            back.append(end)
        for link in rng.choice(fabric.n_links, 6, replace=False):
            begin = base + float(rng.uniform(0, 1)) * DAY_S
            rows.append((np.array([link]), begin, begin + float(rng.uniform(2, 20)), False))
    size = [len(links) for links, *_ in rows]
    return Outages(
        np.concatenate([links for links, *_ in rows]), np.repeat([r[1] for r in rows], size),
        np.repeat([r[2] for r in rows], size), np.repeat([r[3] for r in rows], size),
        np.array(switch), np.array(silent), np.array(back),
    )  # fmt: skip


def _links_of_node(fabric: Fabric, node: int) -> npt.NDArray[np.int64]:
    per = fabric.nics_per_node * fabric.planes
    return np.arange(node * per, (node + 1) * per)


def _links_of_switch(fabric: Fabric, switch: int) -> npt.NDArray[np.int64]:
    links = np.arange(fabric.n_links)
    host = links < fabric.n_ports
    lower, upper = fabric.link_lower[: fabric.n_links], fabric.link_upper[: fabric.n_links]
    if switch < fabric.n_t0:
        return np.flatnonzero(np.where(host, upper, lower) == switch)
    return np.flatnonzero(~host & (upper == switch - fabric.n_t0))
