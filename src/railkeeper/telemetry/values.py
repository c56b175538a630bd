"""Native values to numbers, a column at a time: integers kept exact, text read, what can't be read made ABSENT or NaN.

Sources write the same thing in many ways: 12, 12.0, "12", "4: ACTIVE", "400 Gb/sec (4X NDR)", "N/A (no PMA)". What is
text and neither a number nor a known state is handed back as such: it never becomes 0.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from railkeeper.telemetry.frame import ABSENT

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from railkeeper.telemetry.bindings import Binding

# Ways in which sources say that they can't say.
UNREADABLE = frozenset(
    {"", "n/a", "na", "none", "nan", "null", "-", "--", "unknown", "einval", "not supported", "nosignal"}
)
STATE_WORDS = {
    "up": 1.0, "true": 1.0, "t": 1.0, "t*": 1.0, "yes": 1.0, "on": 1.0, "enabled": 1.0, "enable": 1.0, "ok": 1.0,
    "active": 1.0,
    "down": 0.0, "false": 0.0, "f": 0.0, "f*": 0.0, "no": 0.0, "off": 0.0, "disabled": 0.0, "disable": 0.0,
}  # fmt: skip
MAX_DIGITS = 30  # more than any counter has; Python itself refuses to read numbers of thousands of digits
_LEADING = re.compile(r"\s*([-+]?\d{1,20}(?:\.\d{1,20})?(?:[eE][-+]?\d{1,3})?)", re.ASCII)
_INTEGER = re.compile(r"[-+]?\d{1,30}|0[xX][0-9a-fA-F]{1,16}", re.ASCII)


@dataclass(frozen=True)
class Column:
    """Values of one binding: (n,) uint64 with ABSENT or float32 with NaN, and which of them were strange text."""

    values: npt.NDArray[Any]
    strange: tuple[int, ...] = ()


def column_of(row: Binding, raw: Sequence[Any]) -> Column:
    """Return the values of one binding as numbers: uint64 for counters, float32 for all else."""
    kinds = set(map(type, raw))
    if row.signal.is_counter:
        return _counters(row, raw, kinds)
    return _gauges(row, raw, kinds)


def _counters(row: Binding, raw: Sequence[Any], kinds: set[type]) -> Column:
    try:
        if kinds == {int}:
            return Column(_scaled(row, np.array(raw, dtype=np.uint64)))
        if kinds == {str} and _plain("".join(raw)):
            return Column(_scaled(row, np.array(list(map(int, raw)), dtype=np.uint64)))
        if kinds == {float}:
            return Column(_from_floats(row, np.array(raw)))
    except (ValueError, OverflowError):
        pass  # one of them is no whole number from 0 on: they are read one by one
    return _one_by_one(row, raw)


def _plain(text: str) -> bool:
    """Return whether a text has only digits as we write them; Python's own numbers may have more."""
    return text.isascii() and text.isdigit()


def _gauges(row: Binding, raw: Sequence[Any], kinds: set[type]) -> Column:
    if not row.states:
        try:
            if kinds <= {int, float}:
                return Column(_measured(row, np.array(raw, dtype=np.float64)))
            if kinds == {str} and row.form == "number" and "_" not in (joined := "".join(raw)) and joined.isascii():
                return Column(_measured(row, np.array(list(map(float, raw)))))
        except (ValueError, OverflowError):
            pass
    return _one_by_one(row, raw)


def _scaled(row: Binding, values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Scale native integers; all ones, and the end of a counter that saturates, are no counts."""
    stuck = values == np.uint64(2**row.width - 1) if row.saturates else values == np.uint64(ABSENT)
    if row.blank < math.inf:
        stuck |= values >= np.uint64(int(row.blank))
    if row.scale != 1.0:
        factor = int(row.scale)
        out = values * np.uint64(factor) if factor == row.scale else np.rint(values * row.scale).astype(np.uint64)
    else:
        out = values
    if stuck.any():
        out = np.where(stuck, np.uint64(ABSENT), out)
    return out


def _from_floats(row: Binding, values: npt.NDArray[np.float64]) -> npt.NDArray[np.uint64]:
    # 2^64 as a float is what all ones become on their way through Prometheus.
    fine = np.isfinite(values) & (values >= 0) & (values < 2.0**64 / row.scale)
    fine &= values < min(row.blank, 2.0**row.width - 1 if row.saturates else math.inf)
    out = np.full(len(values), ABSENT, dtype=np.uint64)
    out[fine] = np.rint(values[fine] * row.scale).astype(np.uint64)
    return out


def _measured(row: Binding, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    out = values * row.scale + row.offset
    out = np.maximum(out, row.floor) if math.isfinite(row.floor) else out
    fine = np.isfinite(out) & (values < row.blank)
    return np.where(fine, np.clip(out, -3e38, 3e38), np.nan).astype(np.float32)


def _one_by_one(row: Binding, raw: Sequence[Any]) -> Column:
    counter = row.signal.is_counter
    out = np.full(len(raw), ABSENT if counter else np.nan, dtype=np.uint64 if counter else np.float32)
    strange = []
    for i, value in enumerate(raw):
        number = number_of(row, value)
        if isinstance(number, str):
            strange.append(i)
        elif number is not None:
            out[i] = _one(row, number)
    return Column(out, tuple(strange))


def _one(row: Binding, number: float) -> Any:
    if not row.signal.is_counter:
        return _measured(row, np.array([number], dtype=np.float64))[0]
    if isinstance(number, int):
        return _scaled(row, np.array([number], dtype=np.uint64))[0] if 0 <= number < 2**64 else np.uint64(ABSENT)
    return _from_floats(row, np.array([number]))[0]


def number_of(row: Binding, value: Any) -> int | float | str | None:
    """Return one native value as a number, None where it could not be read, and the text where it is strange."""
    if value is None:
        return None
    if isinstance(value, int | float):
        return value if not row.states else row.states.get(f"{value:g}", f"{value:g}")
    if not isinstance(value, str):
        return repr(value)
    return _text(row, value.strip())


def _text(row: Binding, text: str) -> int | float | str | None:
    low = text.lower()
    if low in row.states:
        return row.states[low]
    if low in UNREADABLE or low.startswith("n/a"):
        return None
    if row.states:
        return text
    if _INTEGER.fullmatch(text):
        return int(text, 0) if low.startswith("0x") else int(text)
    if row.signal.kind == "state" and low in STATE_WORDS:
        return STATE_WORDS[low]
    return _float(text) if row.form == "number" else _leading(text)


def _float(text: str) -> float | str:
    try:
        fine = len(text) <= MAX_DIGITS and text.isascii() and "_" not in text
        return float(text) if fine else text
    except ValueError:
        return text


def _leading(text: str) -> float | str:
    found = _LEADING.match(text)
    return float(found[1]) if found else text


def by_lane(row: Binding, value: Any) -> list[tuple[str, Any]] | None:
    """Return the values of a list of lanes by lane; None where it is none.

    `lanes` is JSON keyed by lane, whose values may be lists that begin with the value; `list` is text with commas.
    """
    if row.form == "list":
        found = str(value).strip().strip("[]").split(",")
        return [(str(i), part.strip()) for i, part in enumerate(found)][:64]
    try:
        data = json.loads(value) if isinstance(value, str) else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict) or not data:
        return None
    return [(str(k), v[0] if isinstance(v, list) and v else v) for k, v in list(data.items())[:64]]
