"""Prometheus text, line by line: what is right is read exactly, what is wrong is told with its place, nothing is lost."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, Summary, exposition
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families as text_families

from railkeeper.adapters.exposition import NO_TIME, Reader
from railkeeper.adapters.series_table import SeriesTable


def read(text, *, om=False):
    body = text if isinstance(text, bytes) else text.encode()
    scrape = Reader().read(body, openmetrics=om)
    counts = scrape.counts
    lines = body.count(b"\n") + (not body.endswith(b"\n") and bool(body))
    assert counts.lines == lines == counts.samples + counts.comments + counts.blank + counts.errors
    return scrape


def samples(scrape):
    return [(s.name, dict(s.labels), v) for s, v in zip(scrape.series, scrape.values.tolist(), strict=True)]


def errors(scrape):
    return [(e.line, e.column, e.problem) for e in scrape.errors]


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("a 1", ("a", {}, 1)),
        ("a:b_c9 1", ("a:b_c9", {}, 1)),
        ("a{} 1", ("a", {}, 1)),
        ('a{b="c"} 1', ("a", {"b": "c"}, 1)),
        ('a{b="c",} 1', ("a", {"b": "c"}, 1)),
        ('  a\t{ b = "c" , d="e"\t}  1  ', ("a", {"b": "c", "d": "e"}, 1)),
        ('a{b="c"}1', ("a", {"b": "c"}, 1)),
        (r'a{b="x\\y\"z\n"} 1', ("a", {"b": 'x\\y"z\n'}, 1)),
        (r'a{b="\\n"} 1', ("a", {"b": r"\n"}, 1)),
        ('a{b="} 1 {"} 1', ("a", {"b": "} 1 {"}, 1)),
        ('a{b="é€😀"} 1', ("a", {"b": "é€😀"}, 1)),
        ("a -1.5e-3", ("a", {}, -0.0015)),
        ("a +Inf", ("a", {}, math.inf)),
        ("a -inf", ("a", {}, -math.inf)),
        ("a Infinity", ("a", {}, math.inf)),
        ("a 1700000000.123456789", ("a", {}, 1700000000.123456789)),
        ("a 0.1", ("a", {}, 0.1)),
        ("a 1e308", ("a", {}, 1e308)),
        ("a 5e-324", ("a", {}, 5e-324)),
        ("a .5", ("a", {}, 0.5)),
        ("a 5.", ("a", {}, 5.0)),
        ("a 00012", ("a", {}, 12.0)),
        ("a -0", ("a", {}, 0.0)),
        ("a 1.7976931348623157e+308", ("a", {}, 1.7976931348623157e308)),
        ("a 123456789012345678901234567890", ("a", {}, 1.2345678901234568e29)),
        ("a 0." + "0" * 400 + "1", ("a", {}, 0.0)),
    ],
)
def test_right_lines(line, wanted):
    scrape = read(line + "\n")

    assert samples(scrape) == [wanted]
    assert not scrape.errors


@pytest.mark.parametrize(
    ("line", "column", "problem"),
    [
        ("1a 1", 1, "no metric name"),
        ("{} 1", 1, "no metric name"),
        ("é 1", 1, "no metric name"),
        ("a", 2, "no blank before the value"),
        ("a-b 1", 2, "no blank before the value"),
        ('a{b="c"}', 9, "no blank before the value"),
        ("a 1x", 3, "the value is no number"),
        ("a 1_000", 3, "the value is no number"),
        ("a 0x1F", 3, "the value is no number"),
        ("a 1,5", 3, "the value is no number"),
        ("a -NaN", 3, "the value is no number"),
        ("a 1e", 3, "the value is no number"),
        ("a --1", 3, "the value is no number"),
        ("a .", 3, "the value is no number"),
        ("a 1e999", 3, "the value is no number"),
        ("a 1\r", 3, "the value is no number"),
        ("a 1 1.5", 5, "the time is no number"),
        ("a 1 now", 5, "the time is no number"),
        ("a 1 99999999999999999999", 5, "the time is no number"),
        ("a 1 9300000000000000000", 5, "the time is out of range"),
        ("a 1 2 3", 7, "something follows the time"),
        ("a 1 # {} 1", 5, "the time is no number"),
        ('a{b="c" d="e"} 1', 9, "neither , nor } after a label"),
        ("a{b=c} 1", 5, "a label's value is not quoted"),
        ('a{b:"c"} 1', 4, "no = after a label's name"),
        ('a{1="c"} 1', 3, "no label name"),
        ("a{,} 1", 3, "no label name"),
        ('a{b="c",,} 1', 9, "no label name"),
        (r'a{b="\t"} 1', 7, "unknown escape in a label's value"),
        ('a{b="c 1', 9, "a label's value does not end"),
        ('a{b="c\\', 8, "unknown escape in a label's value"),
        ('a{b="c",b="d"} 1', 1, "a label is there twice"),
        ('a{__name__="b"} 1', 1, "a label is called __name__"),
    ],
)
def test_wrong_lines_say_where(line, column, problem):
    scrape = read(f"ok 1\n{line}\nalso_ok 2\n")

    assert errors(scrape) == [(2, column, problem)]
    assert samples(scrape) == [("ok", {}, 1), ("also_ok", {}, 2)]
    assert str(scrape.errors[0]).startswith(f"line 2, column {column}: {problem}; ")


def test_not_a_number_is_a_number():
    assert np.isnan(read("a NaN\nb nan\n").values).all()


def test_a_text_that_was_cut_gives_no_half_number():
    """`12` may be the beginning of `1234`: a last line without its line feed is no sample."""
    scrape = read("a 1\nb 12")

    assert samples(scrape) == [("a", {}, 1)]
    assert errors(scrape) == [(2, 1, "the text ends within this line")]


def test_whole_numbers_keep_all_their_bits():
    scrape = read(f"a {2**64 - 1}\nb {2**53 + 1}\nc {2**64}\nd -5\ne 1e3\nf 00{2**63 + 1}\n")

    assert [scrape.number(r) for r in range(6)] == [2**64 - 1, 2**53 + 1, 2.0**64, -5.0, 1000.0, 2**63 + 1]
    assert [isinstance(scrape.number(r), int) for r in range(6)] == [True, True, False, False, False, True]


def test_times():
    text = read("a 1 1700000000123\nb 1 -5\nc 1\n")
    om = read(
        "a 1 1700000000.123456789\nb 1 1.7e9\nc 1 -0.5\nd 1 1520879607.7890001\ne 1 0.00000000001\n# EOF\n", om=True
    )

    assert text.times_ns.tolist() == [1700000000123 * 10**6, -5 * 10**6, NO_TIME]
    assert om.times_ns.tolist() == [1700000000123456789, 17 * 10**17, -5 * 10**8, 1520879607789000100, 0]
    assert errors(read("a 1 1e999999999\nb 1 NaN\n# EOF\n", om=True)) == [
        (1, 5, "the time is out of range"), (2, 5, "the time is no number"),
    ]  # fmt: skip


def test_families():
    text = (
        "# HELP h Some \\\\ help\\nmore.\n# TYPE h histogram\n"
        'h_bucket{le="1"} 1\nh_bucket{le="+Inf"} 2\nh_sum 3\nh_count 2\n'
        '# TYPE s summary\ns{quantile="0.5"} 1\ns_sum 2\ns_count 1\n# just a comment\n#\n\n'
        "# TYPE c counter\nc 1\nplain 1\nh_other 1\n"
    )
    families = read(text).families

    assert {name: (f.kind, len(f.rows)) for name, f in families.items()} == {
        "h": ("histogram", 4), "s": ("summary", 3), "c": ("counter", 1), "plain": ("untyped", 1), "h_other": ("untyped", 1),
    }  # fmt: skip
    assert families["h"].help == "Some \\ help\nmore."
    assert families["h"].rows == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a 1\n# TYPE a counter\n", (2, 1, "TYPE of a comes after its samples")),
        ("# TYPE a counter\n# TYPE a counter\n", (2, 1, "TYPE of a is there twice")),
        ("# HELP a x\n# HELP a x\n", (2, 1, "HELP of a is there twice")),
        ("# TYPE a thing\na 1\n", (1, 1, "unknown type 'thing'")),
        ("# TYPE\n", (1, 1, "TYPE without a metric name")),
        ("# HELP 9 x\n", (1, 1, "HELP without a metric name")),
        ("# TYPE h histogram\nh_bucket 1\n", (2, 1, "a histogram without a number in its label le")),
        ('# TYPE h histogram\nh_bucket{le="x"} 1\n', (2, 1, "a histogram without a number in its label le")),
        ("# TYPE h histogram\nh 1\n", (2, 1, "h is a histogram")),
        ("# TYPE s summary\ns 1\n", (2, 1, "a summary without a number in its label quantile")),
        ("a 1\na 2\n", (2, 1, "the series was there before with this time")),
        ('a{b="c",d="e"} 1\na{d="e", b="c"} 1\n', (2, 1, "the series was there before with this time")),
        ("a 1 5\na 2 5\n", (2, 1, "the series was there before with this time")),
        ("a 1 5\na 2\n", (2, 1, "the series was there before with this time")),
        ("a 1 5\na 2 4\n", (2, 1, "the series was there before with this time")),
    ],
)
def test_what_does_not_fit_in_text(text, told):
    assert errors(read(text)) == [told]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("# TYPE a counter\na 1\n", (2, 1, "a is a counter")),
        ("# TYPE a counter\na_total -1\n", (2, 1, "a count is negative or NaN")),
        ('# TYPE h histogram\nh_bucket{le="1"} -1\n', (2, 1, "a count is negative or NaN")),
        ("# TYPE a counter\na_total NaN\n", (2, 1, "a count is negative or NaN")),
        ("# TYPE a info\na 1\n", (2, 1, "a is a info")),
        ("# TYPE a stateset\na 1\n", (2, 1, "a stateset without a text in its label a")),
        ("# TYPE a untyped\n", (1, 1, "unknown type 'untyped'")),
        ("# UNIT a seconds\n", (1, 1, "the name a does not end with its unit")),
        ("# a comment\n", (1, 1, "a comment")),
        ("\n", (1, 1, "an empty line")),
        (" a 1\n", (1, 1, "no metric name")),
        ("a  1\n", (1, 3, "the value is no number")),
        ("a 1 \n", (1, 5, "the time is no number")),
        ('a{b="c",} 1\n', (1, 9, "no label name")),
        ('a{ b="c"} 1\n', (1, 3, "no label name")),
        ('a{b="c"}1\n', (1, 9, "no blank before the value")),
        ('# TYPE a gauge\na 1\n# TYPE b gauge\nb 1\na{x="y"} 1\n', (5, 1, "samples of a are not together")),
        ("# TYPE a counter\na_total 1 # x\n", (2, 11, "a bad exemplar")),
        ('# TYPE a counter\na_total 1 # {t="1"}\n', (2, 11, "a bad exemplar")),
        ('# TYPE a counter\na_total 1 # {t="1"} x\n', (2, 11, "a bad exemplar")),
        ('# TYPE a counter\na_total 1 # {t="1"} 1 2 3\n', (2, 11, "a bad exemplar")),
    ],
)
def test_what_does_not_fit_in_openmetrics(text, told):
    assert errors(read(text + "# EOF\n", om=True)) == [told]


def test_the_end_of_openmetrics():
    whole, without, behind = (read(f"a 1\n{end}", om=True) for end in ("# EOF\n", "", "# EOF\nb 2\n"))

    assert (whole.complete, without.complete, behind.complete) == (True, False, True)
    assert errors(behind) == [(3, 1, "a line after # EOF")]
    assert read("a 1\n# EOF", om=True).complete  # the last line feed may be missing there


def test_exemplars_and_rising_times():
    text = (
        '# TYPE h histogram\nh_bucket{le="1"} 1 # {trace_id="ab} \\"c"} 0.5 1.5\nh_bucket{le="+Inf"} 2 3 # {} 7\n'
        "h_count 2\nh_sum 4\nh_created 1\n# TYPE g gauge\ng 1 1\ng 2 2\n# EOF\n"
    )
    scrape = read(text, om=True)

    assert not scrape.errors
    assert scrape.exemplar_texts == {0: '# {trace_id="ab} \\"c"} 0.5 1.5', 1: "# {} 7"}
    assert scrape.values.tolist() == [1, 2, 2, 4, 1, 1, 2]
    assert scrape.times_ns.tolist()[-2:] == [10**9, 2 * 10**9]


def test_bytes_that_are_no_text():
    scrape = read(b'ok 1\na{b="\xff"} 1\n# caf\xe9\nb{c="\xc3\xa9"} 2\n')

    assert errors(scrape) == [(2, 6, "the line is not UTF-8"), (3, 6, "the line is not UTF-8")]
    assert samples(scrape) == [("ok", {}, 1), ("b", {"c": "é"}, 2)]


def test_text_of_the_nccl_inspector():
    """It has neither HELP nor TYPE."""
    text = (
        'nccl_bus_bandwidth_gbs{version="v5.1",slurm_job_id="812",node="n01",gpu="GPU0",comm_name="",n_nodes="2",'
        'nranks="16",collective="AllReduce",message_size="4-5GB",algo_proto="Ring_ll"} 328.9\n'
        'nccl_collective_exec_time_microseconds{version="v5.1",gpu="GPU0"} 1530\n'
    )
    scrape = read(text)

    assert [s.name for s in scrape.series] == ["nccl_bus_bandwidth_gbs", "nccl_collective_exec_time_microseconds"]
    assert scrape.series[0].labels["message_size"] == "4-5GB"
    assert scrape.values.tolist() == [328.9, 1530]


def test_errors_beyond_the_first_are_counted():
    scrape = read("!\n" * 1000)

    assert (scrape.counts.errors, len(scrape.errors)) == (1000, 20)


def test_a_known_shape_is_read_alike():
    """The second text of a shape, other numbers in it, and hosts that share a skeleton."""
    reader = Reader()
    texts = [
        f'# TYPE a counter\na{{h="{host}",d="0"}} {n}\na{{h="{host}",d="1"}} {n}.5\nbad line\nb{{h="{host}"}} {n} {n}\n'.encode()
        for host in ("x", "y", "x")
        for n in (1, 2)
    ]
    for text in texts:
        again, fresh = reader.read(text), Reader().read(text)
        assert samples(again) == samples(fresh)
        assert again.times_ns.tolist() == fresh.times_ns.tolist()
        assert (again.counts, errors(again)) == (fresh.counts, errors(fresh))
        assert {n: f.rows for n, f in again.families.items()} == {n: f.rows for n, f in fresh.families.items()}


def test_labels_are_looked_at_though_the_skeleton_is_known():
    reader = Reader()
    good, bad = (f'# TYPE h histogram\nh_bucket{{le="{le}"}} 1\nh_sum 1\n'.encode() for le in ("1", "x"))

    for text in (good, bad, good, bad):
        assert reader.read(text).counts.errors == (text is bad)
    assert reader.read(b'# TYPE h histogram\nh_bucket{le="1",le="2"} 1\nh_sum 1\n').counts.errors == 1


def test_a_table_that_is_full_begins_anew():
    reader = Reader(SeriesTable(max_series=100))
    for k in range(300):
        scrape = reader.read(f'a{{k="{k}"}} {k}\nb 1\n'.encode())
        assert samples(scrape) == [("a", {"k": str(k)}, k), ("b", {}, 1)]
    small = Reader(max_shape_rows=200)
    for k in range(50):
        assert samples(small.read(f'a{{k="{k}"}} {k}\n'.encode())) == [("a", {"k": str(k)}, k)]


def test_many_series_are_found_again():
    table = SeriesTable()
    reader = Reader(table)
    body = b"".join(b'm{k="%d"} %d\n' % (k, k) for k in range(10_000))
    for _ in range(2):
        assert [s.labels["k"] for s in reader.read(body).series] == [str(k) for k in range(10_000)]
    assert len(table) == 10_000


# -- a second opinion: texts that the Prometheus client writes and reads ----------------------------------------------

label_values = st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=12)
numbers = st.floats(allow_nan=True, allow_infinity=True)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(label_values, numbers, st.floats(0, 1e300)), min_size=1, max_size=6, unique_by=lambda t: t[0])
)
def test_the_client_library_agrees(rows):
    registry = CollectorRegistry()
    gauge, counter = Gauge("g", "help \\ \n", ["l"], registry=registry), Counter("c", "h", ["l"], registry=registry)
    histogram, summary = Histogram("h", "x", ["l"], registry=registry), Summary("s", "x", ["l"], registry=registry)
    Info("i", "x", registry=registry).info({"version": "1", "text": rows[0][0]})
    for label, number, count in rows:
        gauge.labels(label).set(number)
        counter.labels(label).inc(count)
        histogram.labels(label).observe(count)
        summary.labels(label).observe(count)
    for module, om, families in ((exposition, False, text_families), (openmetrics, True, openmetrics_families)):
        text = module.generate_latest(registry)
        scrape = read(text, om=om)
        theirs = [(s.name, s.labels, s.value) for family in families(text.decode()) for s in family.samples]
        assert not scrape.errors
        assert repr(samples(scrape)) == repr([(name, dict(labels), float(v)) for name, labels, v in theirs])
        if om:
            assert {f.name for f in families(text.decode())} == set(scrape.families)


@settings(max_examples=1000, deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(["r", ".17g", ".30f", "e", "g", ".3f"]))
def test_numbers_are_exact_to_the_last_bit(number, form):
    text = repr(number) if form == "r" else format(number, form)
    (got,) = read(f"a {text}\n").values.tolist()

    assert struct.pack("d", got) == struct.pack("d", float(text))


pieces = st.sampled_from(
    [b"a", b"b_total", b"{", b"}", b'="', b'"', b",", b"le", b"\\", b"\\n", b" ", b"\t", b"\n", b"\n", b"# TYPE ",
     b"# HELP ", b"# EOF", b"counter", b"histogram", b"1", b".5", b"e9", b"NaN", b"+Inf", b"-", b"#", b" # {", b"\xff", b"\xc3\xa9", b"\r"]
)  # fmt: skip


@settings(max_examples=800, deadline=None)
@given(st.lists(pieces, max_size=40).map(b"".join) | st.binary(max_size=80), st.booleans())
def test_any_bytes_are_read_or_told(body, om):
    """The sum of `read` holds for any bytes, and reading again changes nothing."""
    scrape = read(body, om=om)

    assert len(scrape.series) == len(scrape.values) == len(scrape.times_ns) == scrape.counts.samples
    assert len(scrape.errors) == min(scrape.counts.errors, 20)
    rows = sorted(row for family in scrape.families.values() for row in family.rows)
    assert rows == list(range(scrape.counts.samples))


@settings(max_examples=300, deadline=None)
@given(st.lists(st.lists(pieces, max_size=12).map(b"".join), max_size=5), st.booleans())
def test_a_reader_with_a_past_reads_as_a_new_one(bodies, om):
    reader = Reader()
    for body in bodies:
        old, new = reader.read(body, openmetrics=om), Reader().read(body, openmetrics=om)
        assert repr(samples(old)) == repr(samples(new))
        assert (old.counts, errors(old), old.complete) == (new.counts, errors(new), new.complete)
        assert {n: (f.kind, f.rows) for n, f in old.families.items()} == {
            n: (f.kind, f.rows) for n, f in new.families.items()
        }
