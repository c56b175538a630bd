"""Missing counters: not read here though nearly all peers have them, or though they were read here before."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.detect.cases import PERSISTENCE, Cases, Hits, Said, cases
from railkeeper.health.detect.detector import About
from railkeeper.health.detect.ends import HALF
from railkeeper.health.detect.known import settled
from railkeeper.health.detect.peers import MIN_PEERS
from railkeeper.health.detect.slices import Rounds, part_of
from railkeeper.telemetry.frame import ABSENT, NO_TIME

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.health.detect.finding import Judged
    from railkeeper.health.detect.view import View
    from railkeeper.telemetry.entities import Entities

    Ids = npt.NDArray[np.int32]
    Mask = npt.NDArray[np.bool_]

MOST_NAMED = 6
# Copper has no light: whether peers' modules have it says nothing.
OF_MODULES = ("rx_power_dbm", "tx_power_dbm", "tx_bias_ma", "snr_db", "module_")


@dataclass
class State:
    """Which columns were ever read of each entity, and whose turn it is."""

    p: dict[str, float]
    cases: Cases
    rounds: Rounds
    had: dict[str, Mask] = field(default_factory=dict)


@dataclass(frozen=True)
class Lack:
    """A column that entities (m,) of the whole view lack; had (m,): it was read before; share of peers with it."""

    name: str
    ids: Ids
    had: Mask
    share: npt.NDArray[np.float64]


class MissingCounters:
    """Columns that are absent at entities that do answer."""

    about = About(
        name="missing-counters",
        text="A counter is absent though peers have it, or though it was there.",
        kinds=("port", "nic", "switch"),
        needs=(),
        uses=("oper_up", "admin_up"),
        against=("peers", "past"),
        parameters={
            "peers_share": (
                0.98,
                "ratio",
                "share of the peers that have to have a counter for its absence to be told; two makers have less",
            ),
            **PERSISTENCE,
            "need_ticks": (10, "ticks", "hits that open a finding: some counters are read less often than others"),
            "persist_s": (150, "s", PERSISTENCE["persist_s"][2]),
            "of_ticks": (10, "ticks", PERSISTENCE["of_ticks"][2]),
        },
    )

    def start(self, entities: Entities, parameters: dict[str, float]) -> State:
        """Return the state before the first tick."""
        return State(settled(self.about, parameters), cases(self.about, entities), Rounds(len(entities)))

    def judge(self, state: State, view: View) -> tuple[State, Judged]:
        """Judge all columns of the part whose turn it is."""
        part, (start, _) = part_of(view, state.rounds.turns), state.rounds.turns.bounds()
        sampled = (part.block.t_ns != NO_TIME) & ~_off(part)
        answers = np.bincount(part.entities.group[sampled], minlength=part.entities.n_groups)
        lacks = [x for name in _names(part) if (x := _lack(state, part, name, (sampled, answers), start)) is not None]
        ids = np.unique(np.concatenate([x.ids for x in lacks])) if lacks else np.empty(0, dtype=np.int32)
        ids = ids.astype(np.int32)
        hits = Hits(ids, np.ones(len(ids), dtype=np.float32), lambda i: _say(lacks, int(ids[i])))
        return state, state.rounds.tell(state.cases, view, hits, state.p, part.block.t_ns == NO_TIME)


def _off(view: View) -> Mask:
    """Return (n,) True for ports that are down or switched off: some devices tell less of them then."""
    out = np.zeros(len(view.entities), dtype=np.bool_)
    for name in ("oper_up", "admin_up"):
        state = view.gauge(name)
        if state is not None:
            out |= state < HALF
    return out


def _names(view: View) -> tuple[str, ...]:
    return (*view.block.counter_names, *view.block.gauge_names)


def _absent(view: View, name: str) -> Mask:
    """Return (n,) True where the column was not read: of the values themselves, since a rate needs two of them."""
    block = view.block
    if name in block.counter_names:
        unread: Mask = block.counters[block.counter_names.index(name)] == np.uint64(ABSENT)
        return unread
    nan: Mask = np.isnan(block.gauges[block.gauge_names.index(name)])
    return nan


def _lack(
    state: State, part: View, name: str, answering: tuple[Mask, npt.NDArray[np.int64]], start: int
) -> Lack | None:
    sampled, answers = answering
    absent = _absent(part, name)
    had = state.had.setdefault(name, np.zeros(state.rounds.turns.n, dtype=np.bool_))[start : start + len(absent)]
    missing = np.flatnonzero(absent & sampled)
    had |= ~absent
    if not len(missing):
        return None
    group = part.entities.group[missing]
    lacking = np.bincount(group, minlength=len(answers))
    share = 1 - lacking / np.maximum(answers, 1)
    few = lacking <= np.maximum(1, (1 - state.p["peers_share"]) * answers)
    told = had[missing] | ((few & (answers >= MIN_PEERS))[group] & (not name.startswith(OF_MODULES)))
    found = missing[told]
    return Lack(name, (found + start).astype(np.int32), had[found], share[group[told]]) if len(found) else None


def _say(lacks: list[Lack], entity: int) -> Said:
    mine = [(x, int(np.searchsorted(x.ids, entity))) for x in lacks if entity in x.ids]
    lack, k = mine[0]
    names = ", ".join(x.name for x, _ in mine[:MOST_NAMED])
    more = f" and {len(mine) - MOST_NAMED} more" if len(mine) > MOST_NAMED else ""
    before = "was read here before, and is not read any more" if lack.had[k] else "was never read here"
    share = float(lack.share[k])
    return Said(
        lack.name, 0.0, 1.0, "bool", "past" if lack.had[k] else "peers", 0.9 if share >= 0.9 else 0.6,
        (
            f"it answers, but without {names}{more}",
            f"{lack.name} {before}; {share:.0%} of its peers have it",
            "another driver, firmware or exporter, or a right that is lacking: until it is back nothing is known of it",
        ),
    )  # fmt: skip
