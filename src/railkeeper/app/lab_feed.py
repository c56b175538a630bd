"""The lab's own ports as a source: a frame at the end of each frame's time, so that detectors judge real counters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from railkeeper.base.errors import OutsideError
from railkeeper.health.slo.scopes import Job
from railkeeper.lab.counters import COLUMNS
from railkeeper.telemetry.fabric_entities import port_entities
from railkeeper.telemetry.frame import Block, Frame
from railkeeper.telemetry.frame_wire import encode_frame

if TYPE_CHECKING:
    from collections.abc import Callable

    from railkeeper.fabric.model import Fabric
    from railkeeper.lab.counters import PortCounters

JOB = "ring"  # the lab's traffic: one ring over all NICs


class LabFeed:
    """Reads all ports of a lab once a frame. `read` asks the lab."""

    def __init__(self, fabric: Fabric, read: Callable[[], PortCounters], *, frame_s: float, traffic: bool) -> None:
        self._ports, self._read, self._frame_s = port_entities(fabric), read, frame_s
        self._jobs = (Job(JOB, tuple(range(fabric.n_nodes))),) if traffic else ()
        self._number: int | None = None

    def take(self, t_s: float) -> tuple[tuple[bytes, ...], tuple[Job, ...] | None]:
        """Return the frame that ends with a tick (unix s) and the jobs; neither where a frame's time goes on."""
        number = int(t_s // self._frame_s)
        first = self._number is None
        if number == self._number:
            return (), None
        self._number = number
        if first:
            return (), None
        try:
            read = self._read()
        except OutsideError as e:
            if not e.retry:
                raise
            return (), None
        return encode_frame(Frame(t_s, {"port": self._block(read)})), self._jobs

    def _block(self, read: PortCounters) -> Block:
        up = np.where(read.up < 0, np.nan, read.up).astype(np.float32)
        widths = np.full(len(COLUMNS), 64, dtype=np.uint8)
        widths[COLUMNS.index("link_downs")] = 32
        return Block(self._ports, read.t_ns, COLUMNS, widths, read.counters, ("oper_up",), up[None])
