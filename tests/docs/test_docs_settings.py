"""The page of settings knows every key, with its default and its bounds, and no others."""

from __future__ import annotations

import dataclasses
import re
from typing import get_args

import pytest
from pages import blocks, read, rows, section

from railkeeper.app.settings import KeeperSettings, read_settings
from railkeeper.app.settings_levels import SliSettings, SloSettings, TelemetrySettings
from railkeeper.app.settings_sources import AnySource
from railkeeper.base.errors import InputError
from railkeeper.health.fault import LocatorConfig
from railkeeper.health.slo.slis import SLIS
from railkeeper.respond.guardrails import Limits
from railkeeper.telemetry.place_rules import PlacesSettings

PAGE = read("docs/reference/settings.md")
DEFAULTS = {
    "keeper": {name: field.default for name, field in KeeperSettings.model_fields.items()},
    # the length of a tick is the keeper's
    "locator": {f.name: f.default for f in dataclasses.fields(LocatorConfig) if f.name != "tick_s"},
    "limits": {f.name: f.default for f in dataclasses.fields(Limits)},
    "telemetry": {name: field.default for name, field in TelemetrySettings.model_fields.items()},
    "sli": {name: field.default for name, field in SliSettings.model_fields.items()},
}
SOURCES = get_args(get_args(AnySource)[0])
KEYS = [(table, key) for table, keys in DEFAULTS.items() for key in keys]
TEXTS = {"an address and a port, as `127.0.0.1:9464`", "a path", "a URL", "`tcp://ADDRESS:PORT`, `ipc://PATH`"}
# What the world decides, what is made of other settings, and what is empty.
OTHERWISE = {"metrics", "fabric", "journal", "listen", "dry_run", "frozen"}


def cells(table, key):
    return [c.strip() for c in rows(section(PAGE, f"`[{table}]`"))[key].strip("|").split("|")]


def settings(tmp_path, table, key, value):
    path = tmp_path / "keeper.toml"
    path.write_text(f"[{table}]\n{key} = {value}\n", encoding="utf-8")
    return read_settings(path)


def good_and_bad(said):
    """Values that the page allows, and values that it does not."""
    if found := re.fullmatch(r"([\d.]+) to ([\d.]+)", said):
        low, high = map(_number, found.groups())
        return [low, high], [low - 1, high + 1]
    if found := re.fullmatch(r"above ([\d.]+), at most ([\d.]+)", said):
        low, high = map(float, found.groups())
        return [low + 0.01, high], [low, high + 0.01]
    if found := re.fullmatch(r"at least ([\d.]+)", said):
        return [int(found[1])], [int(found[1]) - 1]
    if said in TEXTS:
        return [], ["1", "true"]
    return {
        "true or false": (["true", "false"], ["1", '"yes"']),
        "a number": (["1.5", "2"], ["true", '"1"', "nan"]),
        "a whole number": (["3"], ["1.5", "true"]),
        "a list": (["[]", "[[1, 2]]"], ["[[2, 1]]", "[1, 2]", "3"]),
    }[said]


def _number(text):
    return float(text) if "." in text else int(text)


def test_the_page_has_a_row_for_each_key_and_no_other():
    for table, keys in DEFAULTS.items():
        assert set(rows(section(PAGE, f"`[{table}]`"))) == set(keys)


@pytest.mark.parametrize(("table", "key"), KEYS)
def test_defaults_are_those_of_the_code(table, key):
    said, default = cells(table, key)[3], DEFAULTS[table][key]
    if key in OTHERWISE:
        assert default in ("", True, ())
    elif isinstance(default, bool | str):
        assert said.strip("`") == str(default).lower()
    else:
        assert float(said) == default


@pytest.mark.parametrize(("table", "key"), KEYS)
def test_bounds_are_those_of_the_code(tmp_path, table, key):
    good, bad = good_and_bad(cells(table, key)[2])

    for value in good:
        assert settings(tmp_path, table, key, value)
    for value in bad:
        with pytest.raises(InputError, match=key):
            settings(tmp_path, table, key, value)


def test_the_example_is_good(tmp_path):
    path = tmp_path / "keeper.toml"
    path.write_text(blocks(PAGE, "toml")[0], encoding="utf-8")

    assert read_settings(path).limits["max_denied_share"] == 0.25


def kinds_of(name):
    return {_kind(m) for m in SOURCES if name in m.model_fields}


def _kind(model):
    return get_args(model.model_fields["kind"].annotation)[0]


def test_sources_have_a_row_for_each_key_that_names_its_kinds():
    wanted = {name for m in SOURCES for name in m.model_fields} - {"kind"}
    said = rows(section(PAGE, "`[[source]]`"))
    every = {_kind(m) for m in SOURCES}

    assert every <= set(said)
    assert wanted <= set(said)
    assert set(said) <= wanted | every
    for name in wanted:
        last = said[name].strip().strip("|").rsplit("|", 1)[1]
        assert (every if last.strip() == "all" else set(re.findall(r"`([^`]+)`", last))) == kinds_of(name), name


def test_places_have_a_row_for_each_key():
    assert set(rows(section(PAGE, "`[places]`"))) == set(PlacesSettings.model_fields)


def test_objectives_have_a_row_for_each_key_and_all_indicators():
    said = rows(section(PAGE, "`[[slo]]`"))

    assert set(said) == set(SloSettings.model_fields)
    assert set(re.findall(r"`([^`]+)`", said["sli"])) - {"sli"} == set(SLIS)


def test_the_sources_of_the_first_steps_are_good(tmp_path):
    path = tmp_path / "keeper.toml"
    path.write_text(blocks(read("docs/first-steps.md"), "toml")[0], encoding="utf-8")

    assert [s.kind for s in read_settings(path).source] == ["prometheus", "sonic"]
