"""The keeper's settings file (TOML): every key checked, unknown keys refused, defaults beside their bounds."""

from __future__ import annotations

import tomllib
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from railkeeper.base.errors import InputError
from railkeeper.health.fault import LocatorConfig
from railkeeper.respond.guardrails import Limits

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

T = TypeVar("T")
_STRICT = ConfigDict(extra="forbid", frozen=True)


class KeeperSettings(BaseModel):
    """The `[keeper]` table.

    - fabric: path of the fabric spec, relative to the settings file
    - state: folder of journal, history and sockets
    - journal: URL of the journal's database; empty for `journal.db` in the state folder
    - listen: endpoint for agents and senders, `tcp://ADDRESS:PORT` or `ipc://PATH`; empty for a socket in `state`
    - tick_s: length of a tick; agents must use the same
    - history_days: how long the history is kept
    """

    model_config = _STRICT

    fabric: str = ""
    state: str = "railkeeper-state"
    journal: str = ""
    listen: str = ""
    tick_s: float = Field(default=0.5, ge=0.1, le=60)
    history_days: float = Field(default=7, gt=0, le=3650)


class Settings(BaseModel):
    """A whole settings file; `locator` and `limits` hold the fields of LocatorConfig and Limits."""

    model_config = _STRICT

    keeper: KeeperSettings = Field(default_factory=KeeperSettings)
    locator: dict[str, float | int | bool] = Field(default_factory=dict)
    limits: dict[str, float | int | bool | list[list[float]]] = Field(default_factory=dict)

    def locator_config(self, where: str) -> LocatorConfig:
        """Return the locator's settings with the keeper's tick length."""
        return _build(LocatorConfig, {**self.locator, "tick_s": self.keeper.tick_s}, f"{where}: locator")

    def limits_config(self, where: str, *, dry_run: bool) -> Limits:
        """Return the guardrails' limits; `dry_run` is what the world does when the file does not say."""
        given: dict[str, Any] = {"dry_run": dry_run, **self.limits}
        if "frozen" in given:
            given["frozen"] = tuple(tuple(span) for span in given["frozen"])
        return _build(Limits, given, f"{where}: limits")

    def journal_url(self, state: Path) -> str:
        """Return the URL of the journal."""
        return self.keeper.journal or f"sqlite:///{state}/journal.db"


def _build(cls: type[T], given: Mapping[str, Any], where: str) -> T:
    known = [f.name for f in fields(cls)]  # type: ignore[arg-type]
    for key in given:
        if key not in known:
            raise InputError(f"{where}.{key}", "is not a known key", f"known keys: {', '.join(sorted(known))}")
    return cls(**given)


def read_settings(path: Path | None) -> Settings:
    """Read a settings file; None gives the defaults. Raises InputError that names file, key and what would be right."""
    if path is None:
        return Settings()
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as e:
        raise InputError(str(path), f"can't be read ({e.strerror})", "give the path of a settings file") from e
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as e:
        raise InputError(str(path), f"is not TOML ({e})", "see docs/reference/settings.md") from e
    try:
        return Settings.model_validate(data)
    except ValidationError as e:
        first = e.errors(include_url=False)[0]
        field = ".".join(str(x) for x in first["loc"])
        message = first["msg"]
        raise InputError(f"{path}: {field}", f"is {first['input']!r}", message[:1].lower() + message[1:]) from e
