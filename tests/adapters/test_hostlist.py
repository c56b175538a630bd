"""Host lists in brackets: the right ones expand, the wrong ones say where they are wrong, none fills the memory."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railkeeper.adapters.hostlist import MAX_HOSTS, expand
from railkeeper.base.errors import InputError


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ()),
        ("n1", ("n1",)),
        ("n[001-003,7],gpu5", ("n001", "n002", "n003", "n7", "gpu5")),
        ("n[8-11]", ("n8", "n9", "n10", "n11")),
        ("n[08-11]", ("n08", "n09", "n10", "n11")),
        ("r[1-2]n[1-2]-ib", ("r1n1-ib", "r1n2-ib", "r2n1-ib", "r2n2-ib")),
        ("n[000000000000000001]", ("n000000000000000001",)),
    ],
)
def test_lists_expand(text, names):
    assert expand(text) == names


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("n[1-3", "neither , nor ] after a range at character 6"),
        ("n[3-1]", "range 3-1 runs backwards at character 3"),
        ("n[1,]", "no number in brackets at character 5"),
        ("n[]", "no number in brackets"),
        ("n1,,n2", "an empty name at character 4"),
        (",n1", "an empty name at character 1"),
        ("n1,", "nothing after the last comma"),
        ("n1 n2", "' ' in a name at character 3"),
        ("n]", "']' in a name"),
        ("n[1-1000000000]", "more than 1000000 hosts"),
        ("n[0-999][0-999][0-999]", "more than 1000000 hosts"),
        ("n[1-600000],m[1-600000]", "more than 1000000 hosts"),
        ("n[1-99999999999999999999]", "more than 1000000 hosts"),
        ("n[99999999999999999999]", "neither , nor ]"),
        ("n[٣]", "no number in brackets"),
        ("$(reboot)", "in a name at character 1"),
    ],
)
def test_wrong_lists_say_where(text, told):
    with pytest.raises(InputError) as found:
        expand(text)

    assert told in str(found.value)


@settings(max_examples=500, deadline=None)
@given(st.text(alphabet="an01[]-,.9 é", max_size=40))
def test_any_text_expands_or_is_refused(text):
    try:
        names = expand(text)
    except InputError:
        return
    assert len(names) <= MAX_HOSTS
    assert all(name and not set(name) & set("[], ") for name in names)


@given(st.lists(st.tuples(st.integers(0, 999), st.integers(0, 50), st.integers(1, 4)), min_size=1, max_size=5))
def test_ranges_are_what_counting_gives(ranges):
    text = ",".join(f"{first:0{width}d}-{first + more:0{width}d}" for first, more, width in ranges)
    wanted = [
        f"n{k:0{max(width, len(str(first)))}d}" for first, more, width in ranges for k in range(first, first + more + 1)
    ]

    assert list(expand(f"n[{text}]")) == wanted
