"""Links between pages resolve, named paths exist, runbooks and recipes say what the code does."""

from __future__ import annotations

import re

import pytest
from pages import PAGES, TOP, anchors, prose, read, rows, section

from railkeeper.fabric.faults import KINDS
from railkeeper.fabric.model import Fabric
from railkeeper.fabric.spec import check_spec
from railkeeper.respond.actions import ActionStatus, Proposal
from railkeeper.respond.guardrails import Limits, check
from railkeeper.respond.incidents import Severity

LINKS = [
    (page, target)
    for page in PAGES
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page.read_text(encoding="utf-8")))
    if "://" not in target
]
NAMED = [
    (page, path)
    for page in PAGES
    for path in re.findall(r"`((?:src|tests|docs|scripts|examples)/[\w./-]+)`", page.read_text(encoding="utf-8"))
]


def relative(page):
    return str(page.relative_to(TOP))


@pytest.mark.parametrize(("page", "target"), LINKS, ids=lambda x: x if isinstance(x, str) else relative(x))
def test_links_resolve(page, target):
    path, _, anchor = target.partition("#")
    there = (page.parent / path).resolve() if path else page

    assert there.exists(), f"{relative(page)} points to {target}"
    if anchor:
        assert anchor in anchors(there.read_text(encoding="utf-8"))


def test_every_page_can_be_reached_from_the_index():
    seen, todo = set(), [TOP / "docs" / "README.md"]
    while todo:
        page = todo.pop()
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        todo += [
            (page.parent / target.partition("#")[0]).resolve() for p, target in LINKS if p == page and target[0] != "#"
        ]

    assert set((TOP / "docs").rglob("*.md")) <= seen


@pytest.mark.parametrize(("page", "path"), NAMED, ids=lambda x: x if isinstance(x, str) else relative(x))
def test_named_paths_exist(page, path):
    assert (TOP / path).exists(), f"{relative(page)} names {path}"


@pytest.mark.parametrize("name", re.findall(r"`(_?[A-Za-z]+_?[A-Za-z]*)`", read("docs/extending.md")))
def test_names_of_code_in_the_recipes_exist(name):
    source = "".join(p.read_text(encoding="utf-8") for p in (TOP / "src").rglob("*.py"))

    assert re.search(rf"\b{name}\b", source)


def test_every_guardrail_has_its_row_in_the_runbook():
    fabric = Fabric(check_spec({"fabric": {"planes": 2, "t0_per_plane": 2, "t1_per_plane": 2, "nics_per_t0": 2}}))
    rules = {v.rule for v in check(fabric, (), Proposal("deny", "k", "i", "p0/t1-0", (0,), "r"), Limits())}
    page = read("docs/runbooks/refused.md")

    assert set(rows(page)) == rules
    settings = {s for row in rows(page).values() for s in re.findall(r"`(\w+)`", row.split("|")[3])}
    assert settings <= set(Limits.__dataclass_fields__)


def test_the_runbook_of_faults_knows_severities_kinds_and_statuses():
    page = read("docs/runbooks/fault.md")
    kinds = {
        k
        for row in re.findall(r"^\| (`.+?) \|", section(page, "3. Look at the part"), re.MULTILINE)
        for k in re.findall(r"`([\w-]+)`", row)
    }
    statuses = re.findall(r"^\| `([\w-]+)`", section(page, "2. See whether it is avoided"), re.MULTILINE)

    assert {str(s) for s in Severity} <= set(re.findall(r"`(\w+)`", page))
    assert kinds == set(KINDS) - {"agent-down"}
    assert set(statuses) <= {str(s) for s in ActionStatus}


@pytest.mark.parametrize("message", re.findall(r"^\| `(.+?)` \|", read("docs/runbooks/lab.md"), re.MULTILINE))
def test_messages_in_the_runbook_of_the_lab_are_written_by_the_code(message):
    source = "".join(p.read_text(encoding="utf-8") for p in (TOP / "src").rglob("*.py"))
    longest = max(re.split(r"'[^']*'|…|--\w+: ", message), key=len).strip()

    assert longest in source


def test_the_picture_fetches_nothing():
    picture = read("docs/pictures/live.svg")

    assert "url(" not in re.sub(r"url\(#[\w-]+\)", "", picture)
    assert "href" not in picture
