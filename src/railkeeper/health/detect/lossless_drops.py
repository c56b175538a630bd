"""Lossless drops: packets lost in a priority group that must not lose any."""

from __future__ import annotations

from typing import TYPE_CHECKING

from railkeeper.health.detect.counts import CountDetector, Row, State, about_counts

if TYPE_CHECKING:
    from railkeeper.health.detect.view import View

_ROWS = (
    Row("pg_drops", None, 0.0, 0.01, 100.0,
        "a lossless priority group lost packets: its headroom is too small for the cable, or pause is not obeyed",
        "any is bad", peers=False),
)  # fmt: skip
_ABOUT = about_counts(
    "lossless-drops", "packets lost in priority groups that must not lose any", ("port",), _ROWS,
    uses=("pfc_tx_frames", "pg_headroom_watermark_bytes", "rx_length_errors"), persist_s=0.0, burst=1.0,
)  # fmt: skip
_ABOUT.parameters.update(
    strict=(0.0, "-log10 p", "a lossless group loses nothing by chance"),
    lossless_a=(3, "priority", "a lossless priority; 3 and 4 are what switches ship with"),
    lossless_b=(4, "priority", "another one; -1 for none"),
)


class LosslessDrops(CountDetector):
    """Any drop in a lossless priority group, on the port that it arrived at."""

    about = _ABOUT
    rows = _ROWS

    def wanted(self, state: State, column: str) -> bool:
        """Return whether a column is of a lossless priority."""
        return column in {f"pg_drops[{int(state.chosen[key])}]" for key in ("lossless_a", "lossless_b")}

    def lines(self, view: View, entity: int, signals: tuple[str, ...]) -> tuple[str, ...]:
        """Say where to look: who sends into this port although it should pause."""
        del signals
        other = int(view.entities.other[entity])
        if other < 0:
            return ()
        name = view.entities.name_of(other)
        return (f"{name} sends into it: compare cable length and MTU with the headroom, and whether it obeys pause",)
