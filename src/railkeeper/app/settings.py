"""The keeper's settings file (TOML): every key checked, unknown keys refused, defaults beside their bounds."""

from __future__ import annotations

import math
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from railkeeper.app.settings_errors import explained
from railkeeper.app.settings_levels import (
    SliSettings,
    SloSettings,
    TelemetrySettings,
    detector_parameters,
    level_config,
)
from railkeeper.app.settings_sources import AnySource, check_sources
from railkeeper.app.typed import build
from railkeeper.base.errors import InputError
from railkeeper.health.fault import LocatorConfig
from railkeeper.respond.guardrails import Limits
from railkeeper.telemetry.place_rules import PlacesSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from railkeeper.app.levels import LevelConfig

_STRICT = ConfigDict(extra="forbid", frozen=True, strict=True)
_TCP = re.compile(r"tcp://(\*|[^\s:/]+|\[[0-9A-Fa-f:.%\w]+\]):([0-9]{1,5})")
_MAX_SOCKET_PATH = 107
# Of the locator's numbers; one without an entry is at least 0.
_LOCATOR_BOUNDS = {
    "tick_s": (0.1, 60.0),
    "false_alarms_per_day": (1e-9, 1e4),
    "nominal_bps": (1e3, 1e14),
    "slow_fraction": (0.01, 1.0),
    "background_loss": (0.0, 0.5),
    "silent_ticks": (1, 100_000),
}


class KeeperSettings(BaseModel):
    """The `[keeper]` table.

    - fabric: path of the fabric spec, relative to the settings file
    - state: folder of journal, history and sockets
    - journal: URL of the journal's database; empty for `journal.db` in the state folder
    - listen: endpoint for agents and senders, `tcp://ADDRESS:PORT` or `ipc://PATH`; empty for a socket in `state`
    - tick_s: length of a tick; agents must use the same
    - history_days, history_gb: how long the history is kept, and how large it may grow
    """

    model_config = _STRICT

    fabric: str = ""
    state: str = Field(default="railkeeper-state", min_length=1)
    journal: str = ""
    listen: str = ""
    tick_s: float = Field(default=0.5, ge=0.1, le=60)
    history_days: float = Field(default=7, gt=0, le=3650)
    history_gb: float = Field(default=20, gt=0, le=1_000_000)

    @field_validator("listen")
    @classmethod
    def _check_listen(cls, value: str) -> str:
        if value:
            check_endpoint(value)
        return value


class Settings(BaseModel):
    """A whole settings file; `locator` and `limits` hold the fields of LocatorConfig and Limits."""

    model_config = _STRICT

    keeper: KeeperSettings = Field(default_factory=KeeperSettings)
    locator: dict[str, Any] = Field(default_factory=dict)
    limits: dict[str, Any] = Field(default_factory=dict)
    telemetry: TelemetrySettings = Field(default_factory=TelemetrySettings)
    sli: SliSettings = Field(default_factory=SliSettings)
    slo: list[SloSettings] | None = None
    detectors: dict[str, Any] = Field(default_factory=dict)
    source: list[AnySource] = Field(default_factory=list)
    places: PlacesSettings = Field(default_factory=PlacesSettings)

    def locator_config(self, where: str, *, common_clock: bool = True, expect_agents: bool = True) -> LocatorConfig:
        """Return the locator's settings with the keeper's tick length.

        `common_clock` and `expect_agents` are what the world has when the file does not say.
        """
        if "tick_s" in self.locator:
            raise InputError(f"{where}: locator.tick_s", "is the keeper's", "set keeper.tick_s")
        world = {"common_clock": common_clock, "expect_agents": expect_agents}
        given = {**world, **self.locator, "tick_s": self.keeper.tick_s}
        return locator_config(given, f"{where}: locator")

    def limits_config(self, where: str, *, dry_run: bool, wanted: bool | None = None) -> Limits:
        """Return the guardrails' limits.

        `dry_run` is what the world does when the file does not say; `wanted`, where given, is stronger than the file.
        """
        given: dict[str, Any] = {"dry_run": dry_run, **self.limits}
        limits = build(Limits, given, f"{where}: limits")
        return limits if wanted is None else build(Limits, {**given, "dry_run": wanted}, f"{where}: limits")

    def level_config(self, where: str) -> LevelConfig:
        """Return the service levels that are kept."""
        return level_config(self.sli, self.slo, where)

    def detector_parameters(self, where: str) -> dict[str, dict[str, float]]:
        """Return the detectors' parameters that differ from their defaults."""
        return detector_parameters(self.detectors, where)

    def journal_url(self, state: Path) -> str:
        """Return the URL of the journal."""
        return self.keeper.journal or f"sqlite:///{state}/journal.db"


def locator_config(given: Mapping[str, Any], where: str) -> LocatorConfig:
    """Return the locator's settings; raises InputError for a key, type or number that can't be."""
    config = build(LocatorConfig, given, where)
    for key in given:
        value = getattr(config, key)
        low, high = _LOCATOR_BOUNDS.get(key, (0.0, math.inf))
        if not isinstance(value, bool) and not low <= value <= high:
            right = f"at least {low:g}" if math.isinf(high) else f"{low:g} to {high:g}"
            raise InputError(f"{where}.{key}", f"is {value:g}", right)
    return config


def spec_of(path: Path | None, settings: Settings) -> Path | None:
    """Return where the settings' fabric spec is: beside the settings file; None where they name none."""
    name = settings.keeper.fabric
    return Path(path.parent if path else "", name) if name else None


def check_endpoint(text: str) -> None:
    """Raise ValueError unless a keeper can listen on an endpoint, and agents connect to it."""
    if text.startswith("ipc://") and 0 < len(text.removeprefix("ipc://").encode()) <= _MAX_SOCKET_PATH:
        return
    found = _TCP.fullmatch(text)
    if found is None or not 0 < int(found[2]) < 65536:
        raise ValueError(f"tcp://ADDRESS:PORT or ipc://PATH (a path of at most {_MAX_SOCKET_PATH} bytes)")


def read_settings(path: Path | None) -> Settings:
    """Read a settings file; None gives the defaults. Raises InputError that names file, key and what would be right."""
    if path is None:
        return Settings()
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as e:
        raise InputError(str(path), f"can't be read ({e.strerror})", "give the path of a settings file") from e
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as e:
        raise InputError(str(path), f"is not TOML ({e})", "see docs/reference/settings.md") from e
    settings = _settings(data, str(path))
    settings.locator_config(str(path))
    settings.limits_config(str(path), dry_run=True)
    settings.level_config(str(path))
    settings.detector_parameters(str(path))
    check_sources(settings.source, str(path))
    return settings


def _settings(data: Mapping[str, Any], where: str) -> Settings:
    try:
        return Settings.model_validate(data)
    except ValidationError as e:
        raise explained(e.errors(include_url=False), Settings, where) from e
