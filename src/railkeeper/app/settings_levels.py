"""The tables `[telemetry]`, `[sli]`, `[[slo]]` and `[detectors.NAME]` of the settings file."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from railkeeper.app.levels import LevelConfig
from railkeeper.base.errors import InputError
from railkeeper.health.detect.engine import detectors_found
from railkeeper.health.slo.objectives import DAY_S, DEFAULT_ALERTS, DEFAULT_SLOS, BurnAlert, Slo
from railkeeper.health.slo.scopes import SCOPE_KINDS
from railkeeper.health.slo.series import HOUR_S, HOURS
from railkeeper.health.slo.slis import SLIS, SliConfig

if TYPE_CHECKING:
    from collections.abc import Mapping

_STRICT = ConfigDict(extra="forbid", frozen=True, strict=True)
_MAX_PERIOD_DAYS = (HOURS - 1) * HOUR_S / DAY_S


class TelemetrySettings(BaseModel):
    """The `[telemetry]` table.

    - frame_s: what was read in this time makes one frame, that detectors judge
    - metrics: `ADDRESS:PORT` on which Prometheus can scrape the keeper; empty for none
    """

    model_config = _STRICT

    frame_s: float = Field(default=10.0, ge=0.5, le=3600)
    metrics: str = ""

    @field_validator("metrics")
    @classmethod
    def _check_metrics(cls, value: str) -> str:
        host, _, port = value.rpartition(":")
        if value and not (host and port.isdigit() and 0 < int(port) < 65536):
            raise ValueError("an address and a port, as 127.0.0.1:9464")
        return value


class SliSettings(BaseModel):
    """The `[sli]` table: the fields of SliConfig with their bounds."""

    model_config = _STRICT

    latency_us: float = Field(default=SliConfig.latency_us, ge=1, le=1e9)
    bandwidth_share: float = Field(default=SliConfig.bandwidth_share, gt=0, le=1)
    busbw_share: float = Field(default=SliConfig.busbw_share, gt=0, le=1)
    groups_per_pod: int = Field(default=SliConfig.groups_per_pod, ge=0, le=100_000)
    gpus_per_node: int = Field(default=SliConfig.gpus_per_node, ge=1, le=1024)


class AlertSettings(BaseModel):
    """One row of `alerts` in an `[[slo]]`."""

    model_config = _STRICT

    burn: float = Field(gt=0, le=1e6)
    long_s: float = Field(ge=60, le=_MAX_PERIOD_DAYS * DAY_S)
    short_s: float = Field(ge=60, le=_MAX_PERIOD_DAYS * DAY_S)
    severity: Literal["page", "ticket"] = "page"

    @model_validator(mode="after")
    def _check_windows(self) -> Self:
        if self.short_s > self.long_s:
            raise ValueError("short_s at most long_s")
        return self


class SloSettings(BaseModel):
    """One `[[slo]]`: the fields of Slo; without `alerts` the usual four pairs of windows."""

    model_config = _STRICT

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$")
    sli: str
    scope: str = "fabric"
    objective: float = Field(gt=0, lt=1)
    period_days: float = Field(default=30, ge=1, le=_MAX_PERIOD_DAYS)
    least_total: float = Field(default=1, gt=0, le=1e15)
    alerts: list[AlertSettings] | None = None

    @field_validator("sli")
    @classmethod
    def _check_sli(cls, value: str) -> str:
        return _one_of(value, tuple(SLIS))

    @field_validator("scope")
    @classmethod
    def _check_scope(cls, value: str) -> str:
        return _one_of(value, SCOPE_KINDS)

    def slo(self) -> Slo:
        """Return the objective."""
        alerts = DEFAULT_ALERTS if self.alerts is None else tuple(BurnAlert(**a.model_dump()) for a in self.alerts)
        return Slo(self.name, self.sli, self.scope, self.objective, self.period_days * DAY_S, self.least_total, alerts)


def _one_of(value: str, known: tuple[str, ...]) -> str:
    if value not in known:
        raise ValueError(f"one of {', '.join(known)}")
    return value


def level_config(slis: SliSettings, slos: list[SloSettings] | None, where: str) -> LevelConfig:
    """Return what is kept of service levels; raises InputError for two objectives of one name."""
    if slos is None:
        return LevelConfig(DEFAULT_SLOS, SliConfig(**slis.model_dump()))
    names = [s.name for s in slos]
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        raise InputError(f"{where}: slo.name", f"{twice[0]!r} is there twice", "give each objective a name of its own")
    return LevelConfig(tuple(s.slo() for s in slos), SliConfig(**slis.model_dump()))


def detector_parameters(given: Mapping[str, Any], where: str) -> dict[str, dict[str, float]]:
    """Return the parameters of detectors that differ from their defaults; raises InputError for what can't be."""
    known = {d.about.name: d.about.parameters for d in detectors_found()} if given else {}
    return {name: _parameters(name, values, known, f"{where}: detectors.{name}") for name, values in given.items()}


def _parameters(name: str, values: Any, known: Mapping[str, Mapping[str, Any]], where: str) -> dict[str, float]:
    if name not in known:
        raise InputError(where, "is no detector", f"one of {', '.join(sorted(known))}")
    if not isinstance(values, dict):
        raise InputError(where, f"is {values!r}", "a table of parameters")
    for key, value in values.items():
        if key not in known[name]:
            raise InputError(f"{where}.{key}", "is not a parameter", f"one of {', '.join(sorted(known[name]))}")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InputError(f"{where}.{key}", f"is {value!r}", "a number")
        if not math.isfinite(value) or (value < 0 <= known[name][key][0]):
            raise InputError(f"{where}.{key}", f"is {value!r}", f"as {known[name][key][0]:g}, at least 0")
    return {key: float(value) for key, value in values.items()}
