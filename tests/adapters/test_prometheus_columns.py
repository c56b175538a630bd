"""Texts as a column: what the quick way reads is what the full reader reads, and what differs goes to the full reader."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railkeeper.adapters.exposition import Reader
from railkeeper.adapters.prometheus_columns import SeriesColumn
from railkeeper.base.errors import OutsideError
from railkeeper.telemetry.frame import ABSENT


def place(series):
    return int(series.labels["i"]) if series.name == "errors" and "i" in series.labels else None


def text(values, *, extra="", name="errors"):
    return (
        f"# TYPE {name} counter\n" + "".join(f'{name}{{i="{i}"}} {v}\n' for i, v in values.items()) + extra
    ).encode()


def column(n=4):
    return SeriesColumn(n, place)


def test_the_second_text_is_followed_whatever_length_its_numbers_have():
    taken = column()
    taken.take("a", text({0: 5, 2: 99}))
    taken.take("a", text({0: 123456, 2: 7}))
    taken.take("a", text({0: 1, 2: 2**63}))

    assert (taken.read_anew, taken.followed) == (1, 2)
    assert taken.values.tolist() == [1, ABSENT, 2**63, ABSENT]


def test_targets_do_not_mix():
    taken = column()
    taken.take("a", text({0: 5}))
    taken.take("b", text({3: 6}))
    taken.take("a", text({0: 7}))
    assert taken.values.tolist() == [7, ABSENT, ABSENT, 6]

    taken.lose("a")
    assert taken.values.tolist() == [ABSENT, ABSENT, ABSENT, 6]


@pytest.mark.parametrize(
    ("second", "values"),
    [
        (text({0: 5, 1: 6}), [5, 6, ABSENT, ABSENT]),
        (text({0: 5, 1: 6, 3: 7}), [5, 6, ABSENT, 7]),
        (text({0: 5}), [5, ABSENT, ABSENT, ABSENT]),
        (text({1: 6, 0: 5}), [5, 6, ABSENT, ABSENT]),
        (text({0: "5 1700000000000", 1: 6}), [5, 6, ABSENT, ABSENT]),
        (text({0: "5.5", 1: 6}), [ABSENT, 6, ABSENT, ABSENT]),
        (text({0: "NaN", 1: 6}), [ABSENT, 6, ABSENT, ABSENT]),
        (text({0: 2**64 - 2, 1: 6}), [2**64 - 2, 6, ABSENT, ABSENT]),
        (text({0: 5, 1: 6}, extra="# a comment\n"), [5, 6, ABSENT, ABSENT]),
        (text({0: 5, 1: 6}, name="other"), [ABSENT] * 4),
        (b"", [ABSENT] * 4),
    ],
)
def test_texts_that_differ_in_more_than_numbers_are_read_anew(second, values):
    taken = column()
    taken.take("a", text({0: 1, 1: 2}))
    taken.take("a", second)

    assert taken.values.tolist() == values


def test_series_that_nobody_wants_are_passed_over():
    taken = column()
    for v in (1, 2):
        taken.take("a", text({0: v}, extra=f"up {v}\nother 3.5\n"))
        taken.take("b", text({1: v}, extra=f"up {v}\n"))

    assert taken.values.tolist() == [2, 2, ABSENT, ABSENT]
    assert taken.followed == 1


@pytest.mark.parametrize("bad", [b'errors{i="0"} \n', b'errors{i="0"} 7', b'errors{i="0" 7\n', b"\xff\xfe 7\n"])
def test_a_text_with_a_bad_line_is_refused_and_its_rows_are_absent(bad):
    taken = column()
    taken.take("a", text({0: 1}))
    with pytest.raises(OutsideError, match="a: line 1 of its metrics"):
        taken.take("a", bad)

    assert taken.values.tolist() == [ABSENT] * 4


NUMBERS = st.one_of(
    st.integers(0, 2**64 - 2), st.integers(0, 99), st.sampled_from(["1e3", "+Inf", "-4", "0.5", "12 99"])
)
TEXTS = st.dictionaries(st.integers(0, 3), NUMBERS, max_size=4).map(text)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(TEXTS, st.binary(max_size=30)), min_size=1, max_size=6))
def test_the_quick_way_reads_what_the_full_reader_reads(bodies):
    taken, reader = column(), Reader()
    for body in bodies:
        wanted = np.full(4, ABSENT, dtype=np.uint64)
        try:
            taken.take("a", body)
        except OutsideError:
            assert reader.read(body).counts.errors
        else:
            found = reader.read(body)
            for row, series in enumerate(found.series):
                if place(series) is not None and found.is_whole[row]:
                    wanted[place(series)] = found.whole[row]
        assert taken.values.tolist() == wanted.tolist()
