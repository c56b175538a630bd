"""Secrets come from a file or the environment, and show themselves to nobody who prints."""

from __future__ import annotations

import logging
import pickle

import pytest

from railkeeper.adapters.secret import Secret, read_secret
from railkeeper.base.errors import InputError


def test_from_a_file_or_the_environment(tmp_path, monkeypatch):
    (tmp_path / "password").write_text("correct horse\r\n")
    monkeypatch.setenv("RK_TEST_PASSWORD", "battery staple")

    assert read_secret("x", file=str(tmp_path / "password")).reveal() == "correct horse"
    assert read_secret("x", env="RK_TEST_PASSWORD").reveal() == "battery staple"
    assert read_secret("x") is None


def test_what_is_no_secret_is_told_without_showing_anything(tmp_path, monkeypatch):
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "binary").write_bytes(b"horse\xff")
    (tmp_path / "long").write_text("horse" * 100_000)
    monkeypatch.setenv("RK_TEST_PASSWORD", "")

    wrong = [{"file": str(tmp_path / name)} for name in ("empty", "binary", "long", "missing", ".")]
    wrong += [{"env": "RK_TEST_PASSWORD"}, {"env": "RK_TEST_NOT_SET"}, {"env": "A", "file": "B"}]
    for named in wrong:
        with pytest.raises(InputError) as error:
            read_secret("source x: password", **named)
        assert str(error.value).startswith("source x: password: ")
        assert "horse" not in str(error.value)


def test_it_never_prints(caplog):
    secret = Secret("correct horse")

    logging.getLogger("x").warning("%s %r", secret, {"password": secret})
    shown = f"{secret} {secret!r} {[secret]} {vars(type(secret))} {caplog.text}"
    assert "horse" not in shown
    with pytest.raises(TypeError):
        pickle.dumps(secret)
    assert secret == Secret("correct horse")
    assert secret != Secret("other")
    assert not Secret("")
