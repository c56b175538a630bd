"""SRv6 without a SID: switches that are sent addresses that they do not know."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railkeeper.health.detect.counts import CountDetector, Row, about_counts
from railkeeper.health.detect.known import column

if TYPE_CHECKING:
    from railkeeper.health.detect.view import View

_ROWS = (
    Row("srv6_no_sid_drops", None, 0.1, 0.1, 1e4,
        "micro-SIDs that it does not know: its table is wrong, or the address is",
        "any that lasts is bad", peers=False),
)  # fmt: skip
# With so large a share of its tier at once, it is who sends that is wrong.
_MANY = 0.5


class Srv6NoSid(CountDetector):
    """Sustained drops for unknown micro-SIDs. One switch alone has a wrong table; all together get wrong addresses."""

    about = about_counts(
        "srv6-no-sid", "switches that drop packets for micro-SIDs that they do not know", ("switch",), _ROWS,
        persist_s=60.0, burst=1.0,
    )  # fmt: skip
    rows = _ROWS

    def lines(self, view: View, entity: int, signals: tuple[str, ...]) -> tuple[str, ...]:
        """Say whether the switch is alone in this among its peers."""
        values = column(view, signals[0])
        if values is None:
            return ()
        values = values[view.entities.group == view.entities.group[entity]]
        known = int(np.count_nonzero(~np.isnan(values)))
        struck = int(np.count_nonzero(values > self.rows[0].per_s))
        if struck > max(1, _MANY * known):
            return (f"{struck} of {known} of its peers drop too: senders use addresses that are wrong",)
        return (f"{struck} of {known} of its peers drop: its own table is likelier wrong than the senders'",)
