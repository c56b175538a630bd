"""Every registered detector has its page, with its parameters as they are, and its row in the index."""

from __future__ import annotations

import re
import tomllib
from importlib import import_module

import pytest
from pages import PAGES, TOP, prose, read, rows, section

ENTRIES = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
DETECTORS = ENTRIES["railkeeper.detectors"]
HEADINGS = ("Why", "How it decides", "Parameters", "Evidence", "What it does not say", "What to do next")

# As "the detector `a`", "detectors `a`, `b` and `c`".
_NAMED = re.compile(r"\bdetectors?\s+(`[a-z0-9-]+`(?:(?:,\s|\sand\s|\sor\s)`[a-z0-9-]+`)*)")


def about(name):
    module, _, kind = DETECTORS[name].partition(":")
    return getattr(import_module(module), kind)().about


@pytest.mark.parametrize("name", DETECTORS)
def test_the_entry_point_has_the_detector_s_own_name(name):
    assert about(name).name == name


@pytest.mark.parametrize("name", DETECTORS)
def test_the_page_has_all_parameters_as_they_are(name):
    page = read(f"docs/detectors/{name}.md")
    table = rows(section(page, "Parameters"))
    told = {key: [cell.strip() for cell in row.split("|")[2:4]] for key, row in table.items()}

    assert told == {
        key: [f"{default:g}", unit or "times"] for key, (default, unit, _) in about(name).parameters.items()
    }


@pytest.mark.parametrize("name", DETECTORS)
def test_the_page_says_what_pages_of_detectors_say(name):
    page = read(f"docs/detectors/{name}.md")

    assert f"(`{name}`)" in page.splitlines()[0]
    for heading in HEADINGS:
        assert section(page, heading).strip(), heading


@pytest.mark.parametrize("name", DETECTORS)
def test_the_page_says_why_it_matters_before_how_it_works(name):
    lines = read(f"docs/detectors/{name}.md").splitlines()
    headings = [line for line in lines if line.startswith("## ")]

    assert headings == [f"## {heading}" for heading in HEADINGS]
    assert not any(line.startswith("Judges:") for line in lines[: lines.index("## How it decides")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_detectors_that_pages_name_are_there(page):
    words = prose(page.read_text(encoding="utf-8"))
    named = {name for found in _NAMED.findall(words) for name in re.findall(r"`([a-z0-9-]+)`", found)}

    assert named <= set(DETECTORS)


@pytest.mark.parametrize("name", DETECTORS)
def test_the_page_names_every_signal_that_is_needed(name):
    page = read(f"docs/detectors/{name}.md")

    assert all(f"`{signal}`" in page for signal in about(name).needs)


def test_the_index_has_each_detector_once_with_its_text():
    index = read("docs/detectors/README.md")

    for name in DETECTORS:
        line = f"| [`{name}`]({name}.md) | {about(name).text} | {', '.join(about(name).kinds)} |"
        assert index.count(line) == 1, line
    assert index.count("| [`") == len(DETECTORS)


def test_pages_are_of_detectors_that_there_are():
    pages = {page.stem for page in (TOP / "docs" / "detectors").glob("*.md")} - {"README"}

    assert pages == set(DETECTORS)
