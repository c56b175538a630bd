"""A flow trace: who sent how much to whom, over which path, and what was lost, as columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from railkeeper.base.errors import InputError
from railkeeper.health.infer import trace_kernels as kernels
from railkeeper.health.infer.word_kernels import NEWLINE, PADDING

if TYPE_CHECKING:
    import numpy.typing as npt

    from railkeeper.health.infer.problem import Ints, Longs

    Bytes = npt.NDArray[np.uint8]

_MAX_BYTES = 1 << 34

_WRONG = {
    kernels.UNKNOWN_RECORD: ("no record that is known", "FP, FID, FPT, FPRT, SS or Failing_link at its begin"),
    kernels.BAD_NUMBER: ("a field is no number, or too large", "whole numbers below 2^31 for nodes, 18 digits else"),
    kernels.BAD_FIELDS: ("too many or too few fields", "FID: 6 or 8; SS: time, sent, lost, random_lost"),
    kernels.EMPTY_PATH: ("a path without nodes", "the switches of the path"),
    kernels.NO_FLOW: ("belongs to no flow", "its FID line before it"),
    kernels.SECOND_PATH: ("a second path of one flow", "one FPT line a flow"),
    kernels.LOST_MORE: ("more packets lost than sent", "lost <= sent"),
}


@dataclass(frozen=True)
class Trace:
    """Flows (N,), paths taken (P) and paths listed as possible (Q), with the lines where they stand.

    `src`, `dst`, `first`, `last` int32: ids of a flow's two ends and of the first and last switch as its FID line says;
    `path` int32: path taken, -1 where the trace does not say; `sent`, `lost` int64 packets, sent -1 where the trace has
    no counts. `path_nodes[path_start[p]:path_start[p + 1]]`: the switches of path p; `listed_*` likewise, with repeats
    if the trace has repeats.
    """

    src: Ints
    dst: Ints
    first: Ints
    last: Ints
    path: Ints
    sent: Longs
    lost: Longs
    line: Ints
    path_start: Longs
    path_nodes: Ints
    path_line: Ints
    listed_start: Longs
    listed_nodes: Ints
    listed_hash: Longs
    listed_line: Ints


def buffer(size: int) -> Bytes:
    """Return room for `size` bytes of a trace, and what must follow them."""
    out = np.empty(size + PADDING, dtype=np.uint8)
    out[size:] = NEWLINE
    return out


def parse_trace(text: Bytes, where: str) -> Trace:
    """Read a trace from a `buffer` that is filled; raises InputError naming the line."""
    if len(text) > _MAX_BYTES:
        raise InputError(where, f"{len(text)} bytes are too many", f"at most {_MAX_BYTES}")
    (code, line), flows, taken, listed = kernels.parse(text, len(text) - PADDING)
    if code != kernels.OK:
        raise InputError(f"{where}: line {line}", *_WRONG[code])
    return Trace(*flows, *taken, *listed)
