"""The wire form of a frame: pieces of MessagePack, each some entities of one kind, columns as little-endian bytes.

Pieces are small enough for a log whatever the size of the fabric. Entities that were not sampled are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgpack
import numpy as np

from railkeeper.base.errors import InputError
from railkeeper.telemetry.frame import ABSENT, NO_TIME, Block, Frame

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import numpy.typing as npt

    from railkeeper.telemetry.entities import Entities

SCHEMA = 1
# A record of the log has room for 64 MB; a block may have hundreds of columns.
PIECE_BYTES = 16_000_000
# Columns over entities (the last axis), with what stands for "not sampled".
_SPREAD: dict[str, tuple[npt.DTypeLike, float]] = {
    "t_ns": (np.int64, NO_TIME),
    "counters": (np.uint64, ABSENT),
    "gauges": (np.float32, np.nan),
    "times": (np.int64, NO_TIME),
    "widths_at": (np.uint8, 64),
}
_WHOLE: dict[str, npt.DTypeLike] = {"widths": np.uint8, "time_of": np.int32}
_NAMES = ("counter_names", "gauge_names")
# The ids of these are the fabric's own. Others (GPUs) got theirs as they were heard of, so they bear their names.
_OF_FABRIC = frozenset({"port", "nic", "node", "switch"})


def encode_frame(frame: Frame) -> tuple[bytes, ...]:
    """Return the pieces of all blocks; a block in which nothing was sampled has none."""
    return tuple(piece for block in frame.blocks.values() for piece in encode_block(block, frame.t_s))


def encode_block(block: Block, t_s: float) -> Iterator[bytes]:
    """Yield the pieces of a block."""
    ids = np.flatnonzero(block.t_ns != NO_TIME)
    columns = [a for name in _SPREAD if (a := getattr(block, name)) is not None]
    each = 4 + sum(a.itemsize * a.size // max(1, len(block.t_ns)) for a in columns)
    step = max(1, PIECE_BYTES // each)
    for start in range(0, len(ids), step):
        yield _piece(block, t_s, ids[start : start + step])


def _piece(block: Block, t_s: float, ids: npt.NDArray[np.intp]) -> bytes:
    columns = {name: getattr(block, name) for name in _SPREAD}
    whole = {name: getattr(block, name) for name in _WHOLE}
    anew = block.anew if block.anew is None else block.anew[np.isin(block.anew[:, 1], ids)]
    body = {
        "schema": SCHEMA, "kind": block.entities.kind, "t_s": t_s, "n": len(block.t_ns), "ids": _pack_ids(ids),
        **{name: list(getattr(block, name)) for name in _NAMES},
        **{name: None if a is None else _pack(a[..., ids]) for name, a in columns.items()},
        **{name: None if a is None else _pack(a) for name, a in whole.items()},
        "anew": None if anew is None else _pack(anew),
    }  # fmt: skip
    if block.entities.kind not in _OF_FABRIC:
        body["names"] = [block.entities.name_of(int(i)) for i in ids]
    return bytes(msgpack.packb(body))


def decode_frame(
    pieces: Iterable[bytes], entities: Mapping[str, Entities], *, where: str = "recording"
) -> Frame | None:
    """Return the frame of such pieces, None where there are none.

    `entities` are those of the fabric by kind; blocks of other kinds are left out. Raises InputError on anything
    that is not a piece of such a frame.
    """
    try:
        return _frame([msgpack.unpackb(piece) for piece in pieces], entities)
    except Exception as e:  # whatever a stranger's bytes can raise, the answer is the same
        raise InputError(where, f"holds a broken frame ({type(e).__name__}: {e})", "record it again") from e


def _frame(pieces: list[dict[str, Any]], entities: Mapping[str, Entities]) -> Frame | None:
    kinds: dict[str, list[dict[str, Any]]] = {}
    for piece in pieces:
        if piece["schema"] != SCHEMA:
            raise ValueError(f"schema {piece['schema']!r}; this release reads {SCHEMA}")
        if piece["kind"] in entities:
            kinds.setdefault(piece["kind"], []).append(piece)
    if not pieces:
        return None
    return Frame(float(pieces[0]["t_s"]), {kind: _block(parts, entities[kind]) for kind, parts in kinds.items()})


def _block(parts: list[dict[str, Any]], of: Entities) -> Block:
    first = parts[0]
    if any(part["n"] != len(of) or any(part[k] != first[k] for k in _NAMES) for part in parts):
        raise ValueError(f"{of.kind}: pieces of different frames, or of another fabric than one of {len(of)}")
    names, gauges = (tuple(map(str, first[name])) for name in _NAMES)
    whole = {name: _unpack(first[name], dtype) for name, dtype in _WHOLE.items()}
    times = whole["time_of"]
    rows = {
        "t_ns": (), "counters": (len(names),), "gauges": (len(gauges),), "widths_at": (len(names),),
        "times": (0 if times is None else int(times.max(initial=-1)) + 1,),
    }  # fmt: skip
    anew = [_unpack(part["anew"], np.int32) for part in parts if part["anew"] is not None]
    made = Block(
        of, counter_names=names, gauge_names=gauges, **{name: _spread(parts, name, shape, len(of))
        for name, shape in rows.items()}, **whole, anew=np.concatenate(anew).reshape(-1, 2) if anew else None,
    )  # fmt: skip
    if len(made.widths) != len(names) or (times is not None and len(times) != len(names)):
        raise ValueError(f"{of.kind}: widths or times are not those of {len(names)} counters")
    return made


def _spread(parts: list[dict[str, Any]], name: str, rows: tuple[int, ...], n: int) -> Any:
    """Put the values of all pieces to the places of their entities."""
    if parts[0][name] is None:
        return None
    dtype, missing = _SPREAD[name]
    out = np.full((*rows, n), missing, dtype=dtype)
    for part in parts:
        ids = _unpack(part["ids"], np.int32)
        out[..., ids] = _unpack(part[name], dtype).reshape(*rows, len(ids))
    return out


def _pack_ids(ids: npt.NDArray[np.intp]) -> bytes:
    return _pack(ids.astype(np.int32))


def _pack(a: npt.NDArray[Any]) -> bytes:
    return np.ascontiguousarray(a, dtype=a.dtype.newbyteorder("<")).tobytes()


def _unpack(data: bytes | None, dtype: npt.DTypeLike) -> Any:
    return None if data is None else np.frombuffer(data, dtype=np.dtype(dtype).newbyteorder("<"))
