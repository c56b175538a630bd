"""View: what a detector sees of one tick, of one kind of entity. Columns are views into the tick's arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    import numpy.typing as npt

    from railkeeper.telemetry.entities import Entities
    from railkeeper.telemetry.frame import Block, Rates


@dataclass(frozen=True)
class View:
    """One tick of one kind of entity.

    - now_s: end of the tick, unix s; tick_s: nominal length of a tick
    - beside: the views of all kinds in the same tick, this one included, by kind: for evidence, as the NIC of a port
    """

    now_s: float
    tick_s: float
    block: Block
    rates: Rates
    beside: Mapping[str, View] = field(default_factory=dict, repr=False)
    _cache: dict[tuple[str, object], object] = field(default_factory=dict, repr=False)

    @property
    def entities(self) -> Entities:
        """The entities that all columns are over."""
        return self.block.entities

    def rate(self, name: str) -> npt.NDArray[np.float32] | None:
        """Return (n,) per second of a counter column, NaN where unknown; None where the column is not in the frame."""
        try:
            row = self.rates.names.index(name)
        except ValueError:
            return None
        column: npt.NDArray[np.float32] = self.rates.per_s[row]
        return column

    def gauge(self, name: str) -> npt.NDArray[np.float32] | None:
        """Return (n,) of a gauge, state or watermark column, NaN where absent; None where it is not in the frame."""
        try:
            row = self.block.gauge_names.index(name)
        except ValueError:
            return None
        column: npt.NDArray[np.float32] = self.block.gauges[row]
        return column

    def parts(self, name: str) -> tuple[str, ...]:
        """Return the columns of a signal with parts that the frame has, as `pfc_rx_frames[3]`."""
        every = (*self.rates.names, *self.block.gauge_names)
        return tuple(c for c in every if c.startswith(f"{name}["))
