"""The page of signals knows every key of a file of bindings."""

from __future__ import annotations

import re

from pages import read, section

from railkeeper.telemetry.bindings import _Head, _Row


def keys_under(heading):
    """Return the keys of the table whose head begins with `heading`."""
    page = section(read("docs/reference/signals.md"), "A dialect of your own")
    table = re.search(rf"^\| {re.escape(heading)} \|.*?(?=\n\n|\Z)", page, re.DOTALL | re.MULTILINE)
    assert table, heading
    return {key for row in re.findall(r"^\| (`.+?) \|", table[0], re.MULTILINE) for key in re.findall(r"`(\w+)`", row)}


def test_keys_of_a_dialect_have_their_row():
    assert keys_under("key of `[dialect]`") == set(_Head.model_fields)


def test_keys_of_a_binding_have_their_row():
    assert keys_under("key of a row") == set(_Row.model_fields)
