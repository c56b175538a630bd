"""The files around the code: lock file, scripts, make targets."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

import pytest

from railkeeper import __version__

TOP = Path(__file__).parents[1]
PROJECT = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))
LOCK = (TOP / "requirements.lock").read_text(encoding="utf-8")
LOCKED = dict(re.findall(r"^([a-z0-9-]+)==(\S+)(?: ; [^\n]*)? \\$", LOCK, re.MULTILINE))


def needed() -> list[str]:
    groups = [
        PROJECT["project"]["dependencies"],
        PROJECT["dependency-groups"]["dev"],
        PROJECT["build-system"]["requires"],
    ]
    return [re.match(r"[A-Za-z0-9-]+", line)[0].lower() for group in groups for line in group]


@pytest.mark.parametrize("package", needed())
def test_every_dependency_is_locked(package):
    assert package in LOCKED


def test_the_lock_has_hashes_and_names_no_host():
    entries = re.split(r"^(?=\S)", LOCK, flags=re.MULTILINE)[1:]

    assert len(entries) == len(LOCKED)
    assert all("--hash=sha256:" in entry for entry in entries)
    assert "://" not in LOCK
    assert not re.search(r"^-", LOCK, re.MULTILINE)


@pytest.mark.parametrize("script", sorted((TOP / "scripts").iterdir()), ids=lambda p: p.name)
def test_scripts_can_be_run_and_stop_at_the_first_error(script):
    assert os.access(script, os.X_OK)
    assert "\nset -eu\n" in script.read_text(encoding="utf-8")


@pytest.mark.parametrize("target", ["install", "run", "test", "bench", "lint"])
def test_make_targets_call_the_scripts(target):
    assert f"{target}: ##" in (TOP / "Makefile").read_text(encoding="utf-8")
    assert (TOP / "scripts" / target).exists()


def test_the_version_is_written_once_and_the_same():
    assert PROJECT["project"]["version"] == __version__
    assert __version__ in (TOP / "CHANGELOG.md").read_text(encoding="utf-8")
