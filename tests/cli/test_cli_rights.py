"""Without root a command that needs it says so, and every other works."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SMALL = str(Path(__file__).parents[2] / "examples" / "small.toml")
NOBODY = 65534
# Everything is imported before root is given up: its home, where the interpreter may live, is closed to others.
SCRIPT = f"""
import os, sys, duckdb, numba, sqlite3, sqlalchemy.dialects.sqlite, typer.main
from railkeeper.cli.errors import run
from railkeeper.cli.main import app
list(typer.main.get_command(app).commands.values())
numba.njit(lambda x: x + 1)(1)
os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})
code = run(app, sys.argv[1:])
sys.stdout.flush()
sys.exit(code)
"""

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only root can become nobody")


@pytest.fixture
def home(tmp_path):
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    os.chown(tmp_path, NOBODY, NOBODY)
    return tmp_path


def as_nobody(home, *args):
    """Return exit code, standard output and standard error."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *map(str, args)],
        cwd=home,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Traceback" not in done.stdout + done.stderr
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "args",
    [
        ("lab", "up", "--fabric", SMALL, "--prefix", "tnobody"),
        ("lab", "drill", "--fabric", SMALL, "--faults", "faults.jsonl", "--prefix", "tnobody", "--json"),
        ("run", "--world", "lab", "--fabric", SMALL, "--prefix", "tnobody", "--json"),
    ],
    ids=["up", "drill", "run"],
)
def test_a_lab_needs_root_and_says_so(home, args):
    (home / "faults.jsonl").write_text('{"id":"a","kind":"down","target":"p0/t1-0"}\n')
    code, out, err = as_nobody(home, *args)

    assert (code, out) == (2, "")
    assert (
        err
        == "railkeeper: the lab needs root (missing: CAP_NET_ADMIN, CAP_SYS_ADMIN): run it as root, e.g. with sudo\n"
    )
    assert [p.name for p in home.iterdir()] == ["faults.jsonl"]


def test_the_lab_of_another_account_is_not_spoken_to(home, tmp_path_factory):
    folder = Path("/run/railkeeper/tnobody2")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        (folder / "control.sock").touch(mode=0o600)
        code, out, err = as_nobody(home, "lab", "status", "--prefix", "tnobody2")
    finally:
        (folder / "control.sock").unlink()
        folder.rmdir()

    assert (code, out) == (2, "")
    assert "is another account's: run it as root" in err


def test_a_live_keeper_needs_no_root(home):
    code, out, err = as_nobody(home, "run", "--world", "live", "--fabric", SMALL, "--for", "1", "--json")
    assert code == 0
    assert [json.loads(line)["schema"] for line in out.splitlines()]
    assert err.startswith("railkeeper: listening on ipc://")
    code, out, _ = as_nobody(home, "status", "--json")
    assert (code, json.loads(out)["keeper"]["last"]["world"]) == (0, "live")


def test_a_state_folder_that_can_not_be_made_is_said(home):
    (home / "keeper.toml").write_text('[keeper]\nstate = "/proc/nowhere"\n')
    code, out, err = as_nobody(
        home, "run", "--world", "live", "--fabric", SMALL, "--config", "keeper.toml", "--for", "1"
    )

    assert (code, out) == (2, "")
    assert "keeper.state: /proc/nowhere: can't be made" in err


def test_someone_elses_state_is_refused_in_words(home, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    (home / "keeper.toml").write_text(f'[keeper]\nstate = "{other}"\n')
    code, out, err = as_nobody(
        home, "run", "--world", "live", "--fabric", SMALL, "--config", "keeper.toml", "--for", "1"
    )

    assert (code, out) == (2, "")
    assert "give a socket in a folder to write to" in err
