"""Readers of switches, hosts and subnets given anything: no error but ours, nothing lost in silence."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reader_entries import ENTRIES, allowed

# Words that stand in these texts: nonsense that is made of them gets further than noise does.
WORDS = [
    *(
        b"\n",
        b" ",
        b"\t",
        b": ",
        b"[",
        b"]",
        b"(",
        b")",
        b'"',
        b"#",
        b"0x",
        b"lid ",
        b"==",
        b"/",
        b"=",
        b"{",
        b"}",
        b",",
    ),
    *(
        b"0",
        b"1",
        b"-1",
        b"18446744073709551616",
        b"N/A",
        b"nan",
        b"1e999",
        b"1_0",
        b"\xff",
        b"\0",
        b"\xc2\xb2",
        b"null",
    ),
    *(
        b"port ",
        b"GUID ",
        b"Switch",
        b"Ca",
        b"oid:0x",
        b"_time_stamp",
        b"Ethernet0",
        b":3",
        b"|",
        b"*",
        b"\\",
        b"9" * 5000,
    ),
]


@st.composite
def broken(draw, texts):
    """A text that is right, with some pieces cut out, doubled or replaced."""
    data = draw(st.sampled_from(texts))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(data)))
        to = draw(st.integers(at, min(len(data), at + 40)))
        piece = draw(st.sampled_from(WORDS) | st.binary(max_size=8) | st.just(data[at:to] * 2))
        data = data[:at] + piece + data[to:]
    return data


@pytest.mark.parametrize("name", ENTRIES)
def test_nonsense_gives_our_errors_or_all_that_it_holds(name):
    entry, texts = ENTRIES[name]

    @settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(broken(texts) | st.binary(max_size=200) | st.lists(st.sampled_from(WORDS), max_size=30).map(b"".join))
    def check(data):
        allowed(entry, data)

    check()


@pytest.mark.parametrize("name", ENTRIES)
def test_the_texts_to_begin_with_are_right(name):
    entry, texts = ENTRIES[name]
    for data in texts:
        entry(data)
