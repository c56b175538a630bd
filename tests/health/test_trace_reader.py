"""The compiled reader of flow traces: agrees with the reference, names the line, loses nothing."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trace_reference import PIECES, SOUND, WrongError, columns, mutated, read

from railkeeper.base.errors import InputError
from railkeeper.health.infer.trace import buffer, parse_trace


def parse(data):
    text = buffer(len(data))
    text[: len(data)] = np.frombuffer(data, dtype=np.uint8)
    return parse_trace(text, "t")


def agree(data):
    """Check that both readers say the same; returns whether the input is sound."""
    wanted = line = None
    try:
        wanted = read(data)
    except WrongError as e:
        line = e.args[0]
    if line is None:
        assert columns(parse(data)) == wanted
        return True
    with pytest.raises(InputError) as raised:
        parse(data)
    assert raised.value.where == f"t: line {line}"
    return False


@pytest.mark.parametrize("data", SOUND)
def test_sound_traces(data):
    assert agree(data)


def test_sums_so_far_so_the_last_counts():
    trace = parse(SOUND[1])

    assert (trace.sent.tolist(), trace.lost.tolist()) == ([80], [3])


def test_paths_are_kept_once_and_listed_ones_as_they_stand():
    trace = parse(b"FP 1 2\nFP 1 2\n" + b"FID 5 6 1 2 9 0\nFPT 1 2\nSS 0 3 0 0\n" * 3 + b"FID 5 6 1 3 9 0\nFPT 1 3\n")

    assert trace.path.tolist() == [0, 0, 0, 1]
    assert trace.path_nodes.tolist() == [1, 2, 1, 3]
    assert trace.listed_nodes.tolist() == [1, 2, 1, 2]
    assert trace.sent.tolist() == [3, 3, 3, -1]


def test_many_paths_outgrow_the_table():
    lines = b"".join(b"FID 1 2 %d %d 9 0\nFPT %d %d\nSS 0 1 0 0\n" % (i, i + 1, i, i + 1) for i in range(5000))

    assert agree(lines * 2)


@pytest.mark.parametrize(
    ("data", "line", "said"),
    [
        (b"FP 1 2\nXX 1", 2, "no record"),
        (b"FID 1 2 3 4 x 6", 1, "no number"),
        (b"FID 1 2 3 4 5", 1, "fields"),
        (b"FID 1 2 3 4 5 6 7", 1, "fields"),
        (b"SS 1 2 1 0", 1, "belongs to no flow"),
        (b"\n\nFPT 1 2", 3, "belongs to no flow"),
        (b"FID 1 2 3 4 5 6\nSS 1 2 3 0", 2, "more packets lost than sent"),
        (b"FID 1 2 3 4 5 6\nSS 1 2 3", 2, "no number"),
        (b"FID 1 2 3 4 5 6\nSS 1 3 3 0 0", 2, "fields"),
        (b"FID 1 2 3 4 5 6\nFPT 3 4\nFPT 3 5 4", 3, "second path"),
        (b"FP \n", 1, "without nodes"),
        (b"FP 1 2147483648\n", 1, "too large"),
        (b"FID 1 2 3 4 5 6\nSS 1 1000000000000000000 0 0", 2, "too large"),
    ],
)
def test_errors_name_the_line_and_what_would_be_right(data, line, said):
    assert not agree(data)
    with pytest.raises(InputError, match=rf"t: line {line}: .*{re.escape(said)}"):
        parse(data)


def test_nothing_is_a_trace_without_flows():
    assert columns(parse(b"")) == ([], [])


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from([*PIECES, b"3", b"4 "]), max_size=40).map(b"".join))
def test_pieces_in_any_order(data):
    agree(data)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes(data):
    agree(data)


def test_changed_traces():
    rng = random.Random(3)

    assert 100 < sum(agree(mutated(rng)) for _ in range(2000)) < 1900
