"""The page of settings knows every key, with its default and its bounds, and no others."""

from __future__ import annotations

import dataclasses
import re

import pytest
from pages import blocks, read, rows, section

from railkeeper.app.settings import KeeperSettings, read_settings
from railkeeper.base.errors import InputError
from railkeeper.health.fault import LocatorConfig
from railkeeper.respond.guardrails import Limits

PAGE = read("docs/reference/settings.md")
DEFAULTS = {
    "keeper": {name: field.default for name, field in KeeperSettings.model_fields.items()},
    # the length of a tick is the keeper's
    "locator": {f.name: f.default for f in dataclasses.fields(LocatorConfig) if f.name != "tick_s"},
    "limits": {f.name: f.default for f in dataclasses.fields(Limits)},
}
KEYS = [(table, key) for table, keys in DEFAULTS.items() for key in keys]
TEXTS = {"a path", "a URL", "`tcp://ADDRESS:PORT`, `ipc://PATH`"}
# What the world decides, what is made of other settings, and what is empty.
OTHERWISE = {"fabric", "journal", "listen", "dry_run", "frozen"}


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
