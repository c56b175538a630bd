"""What the responder needs to know of a located fault, and a record of it that can be stored.

The locator's `Fault` fits `LocatedFault` by its fields, and so does a stored record.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Protocol

from railkeeper.health.fault import ALONE, Fault
from railkeeper.respond.records import known_fields

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CLEARED = "cleared"
_SIZES = ("rate", "rate_low", "rate_high", "delay_ms", "gbps")


class LocatedFault(Protocol):
    """A fault as the locator names it; `denied_links` are the directed links to avoid."""

    @property
    def key(self) -> str: ...
    @property
    def target(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def direction(self) -> str: ...
    @property
    def rate(self) -> float: ...
    @property
    def rate_low(self) -> float: ...
    @property
    def rate_high(self) -> float: ...
    @property
    def delay_ms(self) -> float: ...
    @property
    def gbps(self) -> float: ...
    @property
    def confidence(self) -> float: ...
    @property
    def also_kinds(self) -> Sequence[str]: ...
    @property
    def directions(self) -> Sequence[str]: ...
    @property
    def indistinguishable(self) -> Sequence[str]: ...
    @property
    def since_tick(self) -> int: ...
    @property
    def status(self) -> str: ...
    @property
    def evidence(self) -> Sequence[Any]: ...
    @property
    def network(self) -> bool: ...
    @property
    def denied_links(self) -> Sequence[int]: ...
    @property
    def counters(self) -> str: ...


@dataclass(frozen=True)
class FaultRecord:
    """A fault at one moment, in plain values; itself a `LocatedFault`. Rate, delay and speed are 0 where unused."""

    key: str
    target: str
    kind: str
    direction: str = "both"
    rate: float = 0.0
    delay_ms: float = 0.0
    gbps: float = 0.0
    confidence: float = 1.0
    indistinguishable: tuple[str, ...] = ()
    since_tick: int = 0
    status: str = "open"
    evidence: tuple[str, ...] = ()
    network: bool = True
    denied_links: tuple[int, ...] = ()
    rate_low: float = 0.0
    rate_high: float = 0.0
    also_kinds: tuple[str, ...] = ()
    directions: tuple[str, ...] = ()
    counters: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return values that JSON can hold."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> FaultRecord:
        """Read what `to_dict` wrote; fields of later releases are ignored."""
        return cls(**known_fields(cls, data))


def record_of(fault: LocatedFault) -> FaultRecord:
    """Return the storable record of a fault."""
    return FaultRecord(
        key=fault.key, target=fault.target, kind=fault.kind, direction=fault.direction,
        rate=_number(fault.rate), delay_ms=_number(fault.delay_ms), gbps=_number(fault.gbps),
        confidence=_number(fault.confidence), indistinguishable=tuple(map(str, fault.indistinguishable)),
        since_tick=int(fault.since_tick), status=fault.status, evidence=tuple(map(str, fault.evidence)),
        network=bool(fault.network), denied_links=tuple(sorted({int(x) for x in fault.denied_links})),
        rate_low=_number(fault.rate_low), rate_high=_number(fault.rate_high),
        also_kinds=tuple(fault.also_kinds), directions=tuple(fault.directions), counters=fault.counters,
    )  # fmt: skip


def as_fault(record: FaultRecord) -> Fault:
    """Return the locator's fault of a stored record; a size of 0 is one that its kind does not use."""
    values = {f.name: getattr(record, f.name) for f in fields(Fault)}
    sizes = {name: values[name] or math.nan for name in _SIZES}
    if values["rate"]:
        sizes["rate_low"] = values["rate_low"]
    return Fault(**{**values, **sizes})


def describe(fault: LocatedFault) -> str:
    """Return one line for people, e.g. ``loss 2.1% on p0/t0-1--p0/t1-2 (up)``; a size that nobody knows is left out."""
    size = {
        "loss": f" {_number(fault.rate):.2%}",
        "corrupt": f" {_number(fault.rate):.2%}",
        "delay": f" {_number(fault.delay_ms):.1f} ms",
        "slow": f" to {_number(fault.gbps):.1f} Gb/s",
    }.get(fault.kind, "")
    if fault.counters == ALONE and not (_number(fault.rate) or _number(fault.gbps)):
        size = ""  # counters tell no share
    way = "" if fault.direction == "both" else f" ({fault.direction})"
    return f"{fault.kind}{size} on {fault.target}{way}"


def _number(value: float | None) -> float:
    return 0.0 if value is None or not math.isfinite(value) else float(value)
