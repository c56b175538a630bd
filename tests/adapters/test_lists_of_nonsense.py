"""Readers of metrics text and of workload lists given broken texts: no error but ours, nothing lost in silence."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from list_entries import ENTRIES
from reader_entries import allowed

WORDS = [
    b"\n", b" ", b"{", b"}", b'"', b",", b"=", b"#", b"[", b"]", b"-", b"|", b"1", b"-1", b"1e999", b"NaN", b"null", b"[]", b"{}",
    b"18446744073709551616", b"\\ud800", b"\xff", b"\xc3\xa9", b"9" * 5000, b"[" * 3000, b"# EOF\n", b"# TYPE a counter\n",
]  # fmt: skip


@st.composite
def broken(draw, texts):
    """A text that is right, with some pieces cut out, doubled or replaced."""
    data = draw(st.sampled_from(texts))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(data)))
        to = draw(st.integers(at, min(len(data), at + 40)))
        data = data[:at] + draw(st.sampled_from(WORDS) | st.just(data[at:to] * 2)) + data[to:]
    return data


@pytest.mark.parametrize("name", ENTRIES)
def test_nonsense_gives_our_errors_or_all_that_it_holds(name):
    entry, texts = ENTRIES[name]

    @settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(broken(texts))
    def check(data):
        allowed(entry, data)

    check()


@pytest.mark.parametrize("name", ENTRIES)
def test_the_texts_to_begin_with_are_right(name):
    entry, texts = ENTRIES[name]
    for data in texts:
        entry(data)
