"""Where compiled code is kept when neither the sources nor a home can be written: a place that is ours alone."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

import railkeeper


@pytest.fixture
def closed(monkeypatch, tmp_path):
    """An account that can write nothing but the folder of temporary files."""
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(railkeeper.os, "access", lambda *_: False)
    yield tmp_path
    os.environ.pop("NUMBA_CACHE_DIR", None)


def test_a_private_place_is_made_and_found_again(closed):
    railkeeper._keep_compiled()
    place = os.environ.pop("NUMBA_CACHE_DIR")
    assert Path(place).parent == closed
    assert stat.S_IMODE(Path(place).stat().st_mode) == 0o700
    railkeeper._keep_compiled()
    assert os.environ["NUMBA_CACHE_DIR"] == place


@pytest.mark.parametrize("trap", ["open to others", "link", "file"])
def test_a_place_that_others_can_write_is_not_used(closed, trap):
    path = closed / f"railkeeper-compiled-{os.getuid()}"
    if trap == "open to others":
        path.mkdir()
        path.chmod(0o777)
    elif trap == "link":
        (closed / "elsewhere").mkdir(mode=0o700)
        path.symlink_to(closed / "elsewhere")
    else:
        path.write_text("")
    railkeeper._keep_compiled()
    assert os.environ["NUMBA_CACHE_DIR"] != str(path)
    assert stat.S_IMODE(Path(os.environ["NUMBA_CACHE_DIR"]).stat().st_mode) == 0o700


def test_what_somebody_has_chosen_stays(monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", "/somewhere")
    railkeeper._keep_compiled()
    assert os.environ["NUMBA_CACHE_DIR"] == "/somewhere"
