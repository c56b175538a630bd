"""Examples on the pages: all can be parsed, and those that need no root are run and show what they say."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main
from pages import _FENCE, PAGES, TOP, blocks, read

from railkeeper.cli.main import app

FIRST_STEPS = read("docs/first-steps.md")
RAILKEEPER = Path(sys.executable).with_name("railkeeper")


def lines_of(block):
    """Commands of a block, without prompts; lines that a backslash or an open quote holds together are one."""
    text = re.sub(r"\\\n\s*", "", block)
    for line in re.findall(r"""^(?:[$#] )?(railkeeper (?:'[^']*'|"[^"]*"|[^\n'"])*)$""", text, re.MULTILINE):
        yield re.sub(r" > \S+$", "", line)


COMMANDS = [
    (str(page.relative_to(TOP)), line)
    for page in PAGES
    for _, tongue, body in _FENCE.findall(page.read_text(encoding="utf-8"))
    if tongue in ("", "sh", "console")
    for line in lines_of(body)
]


def parse(args):
    """Parse a command line without running it; raises on usage errors."""
    command = typer.main.get_command(app)
    context = command.make_context("railkeeper", list(args))
    while hasattr(command, "commands"):
        _, command, args = command.resolve_command(context, args)
        context = command.make_context(command.name, list(args), parent=context)


def test_there_are_examples():
    assert len(COMMANDS) > 25


@pytest.mark.parametrize(("page", "line"), COMMANDS)
def test_examples_can_be_parsed(page, line):
    parse(shlex.split(line, comments=True)[1:])


def run(line, folder):
    (folder / "examples").symlink_to(TOP / "examples")
    (folder / "src").symlink_to(TOP / "src")
    found = subprocess.run(
        ["sh", "-ec", line], cwd=folder, capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "PATH": f"{RAILKEEPER.parent}:{os.environ['PATH']}", "COLUMNS": "120"},
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    return [text.rstrip() for text in found.stdout.splitlines()]


SHOWN = [
    (line, output)
    for block in blocks(FIRST_STEPS, "console")
    for line, output in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
]


@pytest.mark.parametrize(("line", "output"), SHOWN, ids=lambda x: x.split("\n")[0][:60])
def test_examples_show_what_the_page_says(tmp_path, line, output):
    assert run(line, tmp_path) == output.splitlines()


@pytest.mark.parametrize("block", blocks(FIRST_STEPS, "sh"))
def test_examples_that_need_no_root_run(tmp_path, block):
    recording = re.search(r"\S+\.rkrec", block)
    if recording and not (TOP / recording[0]).exists():
        pytest.skip("the recording of the demonstration is not there")
    run(block, tmp_path)
