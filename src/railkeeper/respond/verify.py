"""Whether a denial has helped: the loss that the traffic itself saw before it, against the loss after."""

from __future__ import annotations

import enum
from dataclasses import asdict, dataclass
from typing import Any

# Fewer packets than this say nothing about a loss rate that matters.
MIN_PACKETS = 200
# Loss below this is what a healthy fabric may show.
HEALTHY_LOSS = 1e-4
HELPED_SHARE = 0.95


@dataclass(frozen=True)
class Traffic:
    """Packets that senders sent and lost in a span of time; `through...` are those over the denied links."""

    sent: int = 0
    lost: int = 0
    through: int = 0
    through_lost: int = 0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(
            self.sent + other.sent, self.lost + other.lost,
            self.through + other.through, self.through_lost + other.through_lost,
        )  # fmt: skip

    @property
    def loss(self) -> float | None:
        """Share of packets lost; None where none was sent."""
        return self.lost / self.sent if self.sent else None


class Outcome(enum.StrEnum):
    """What a verification can find."""

    HELPED = "helped"
    PARTLY = "partly"
    NO_CHANGE = "no-change"
    WORSE = "worse"
    NOTHING_LOST = "nothing-was-lost"
    NO_DATA = "no-data"

    @property
    def useless(self) -> bool:
        """Whether the traffic still loses as much as before the denial, or more."""
        return self in {Outcome.NO_CHANGE, Outcome.WORSE}


@dataclass(frozen=True)
class Verification:
    """The outcome, with loss shares before and after, and how much of the loss is gone (1 = all of it)."""

    outcome: Outcome
    loss_before: float | None
    loss_after: float | None
    fell_by: float | None
    still_through: int
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """Return values that JSON can hold."""
        return asdict(self)


def verify(before: Traffic, after: Traffic) -> Verification:
    """Compare the traffic before a denial with the traffic after all senders have confirmed it.

    `before.through_lost` tells whether the denied links had any part in the loss.
    """
    was, now = before.loss, after.loss
    if before.sent < MIN_PACKETS or after.sent < MIN_PACKETS or was is None or now is None:
        reason = f"{before.sent} packets before and {after.sent} after are too few, at least {MIN_PACKETS} each"
        return Verification(Outcome.NO_DATA, was, now, None, after.through, reason)
    fell_by = 1 - now / was if was > 0 else None
    outcome = _outcome(was, now, fell_by)
    if outcome is Outcome.NO_CHANGE and not before.through_lost:
        # What is lost elsewhere says nothing about a denial of links that lost nothing (they delay, say).
        outcome = Outcome.NOTHING_LOST
    through = f"; {after.through} packets still crossed the denied links" if after.through else ""
    reason = f"the traffic lost {was:.4%} before and {now:.4%} after{through}"
    return Verification(outcome, was, now, fell_by, after.through, reason)


def _outcome(was: float, now: float, fell_by: float | None) -> Outcome:
    if max(was, now) <= HEALTHY_LOSS:
        return Outcome.NOTHING_LOST
    if fell_by is None or now > 1.5 * was:
        return Outcome.WORSE
    if fell_by >= HELPED_SHARE or now <= HEALTHY_LOSS:
        return Outcome.HELPED
    return Outcome.PARTLY if fell_by >= 0.25 else Outcome.NO_CHANGE
