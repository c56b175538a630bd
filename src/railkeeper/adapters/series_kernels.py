"""Kernels that find series by their bytes: hashes, and an open table of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]

FNV_PRIME = np.uint64(1099511628211)


@njit(cache=True)
def hashes_of(b: Bytes, i: int, middle: int, end: int, seed: Any) -> tuple[Any, Any]:
    """Return the hash of b[i:middle] and that of b[i:end]."""
    h = seed
    for k in range(i, middle):
        h = (h ^ np.uint64(b[k])) * FNV_PRIME
    first = h ^ (h >> np.uint64(29))
    for k in range(middle, end):
        h = (h ^ np.uint64(b[k])) * FNV_PRIME
    return first, h ^ (h >> np.uint64(29))


@njit(cache=True)
def _same(b: Bytes, i: int, arena: Bytes, at: int, length: int) -> bool:
    for j in range(length):  # noqa: SIM110 - a kernel
        if arena[at + j] != b[i + j]:
            return False
    return True


@njit(cache=True, nogil=True)
def look_up(
    b: Bytes, spans: Any, hashes: Any, slot_hash: Any, slot_id: Any, arena: Bytes, offsets: Any, ids: Any
) -> int:
    """Find the ids of series by their bytes: ids (m,) int64, -1 for those not known yet; return how many those are.

    spans (m, 2) are places in b; a known series' bytes are arena[offsets[id]:offsets[id + 1]]; slots is an open table.
    """
    mask = np.uint64(len(slot_hash) - 1)
    missed = 0
    for k in range(len(hashes)):
        begin, length = spans[k, 0], spans[k, 1] - spans[k, 0]
        slot = hashes[k] & mask
        found = -1
        while slot_id[slot] >= 0 and found < 0:
            known = slot_id[slot]
            if slot_hash[slot] == hashes[k] and offsets[known + 1] - offsets[known] == length:
                found = known if _same(b, begin, arena, offsets[known], length) else -1
            slot = (slot + np.uint64(1)) & mask
        ids[k] = found
        missed += found < 0
    return missed


@njit(cache=True, nogil=True)
def insert(hashes: Any, first_id: int, slot_hash: Any, slot_id: Any) -> None:
    """Give the slots the new ids first_id, first_id + 1, … of series with these hashes; there must be free slots."""
    mask = np.uint64(len(slot_hash) - 1)
    for k in range(len(hashes)):
        slot = hashes[k] & mask
        while slot_id[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        slot_hash[slot] = hashes[k]
        slot_id[slot] = first_id + k
