"""Times as people type them."""

from __future__ import annotations

import pytest

from railkeeper.base.errors import InputError
from railkeeper.cli.times import unix_time


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1796083321", 1796083321.0), ("1796083321.5", 1796083321.5), ("2026-05-06T11:00:00Z", 1778065200.0),
     ("2026-05-06T13:00:00+02:00", 1778065200.0), ("0", 0.0)],
)  # fmt: skip
def test_times(text, seconds):
    assert unix_time(text, "--at") == seconds


@pytest.mark.parametrize(
    "text", ["", "now", "nan", "inf", "-5", "1e5", "9" * 20, "9" * 400, "²", "2026-13-01", "1.2.3"]
)
def test_what_is_no_time_is_told(text):
    with pytest.raises(InputError, match=r"--at: is .*unix seconds"):
        unix_time(text, "--at")
