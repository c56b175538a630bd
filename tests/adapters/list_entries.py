"""Entries of the readers of metrics text and of workload managers for any bytes: no error but ours, and nothing lost.

`ENTRIES` is name -> (entry, texts to begin with). An entry raises AssertionError when something was lost.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from railkeeper.adapters import hostlist as hostlists
from railkeeper.adapters import kubernetes, slurm
from railkeeper.adapters.exposition import Reader
from railkeeper.adapters.hostlist import expand
from railkeeper.adapters.prometheus_api import _samples
from railkeeper.adapters.prometheus_readings import Naming, readings_of

# One reader for all inputs of a kind: what it keeps of earlier texts must not change how later ones are read.
TEXT, OPENMETRICS = Reader(), Reader()


def _metrics(reader: Reader, data: bytes, *, openmetrics: bool) -> None:
    scrape = reader.read(data, openmetrics=openmetrics)
    counts = scrape.counts
    lines = data.count(b"\n") + bool(data and not data.endswith(b"\n"))
    assert counts.lines == lines == counts.samples + counts.comments + counts.blank + counts.errors
    assert counts.samples == len(scrape.series) == len(scrape.values) == len(scrape.times_ns)
    assert len(scrape.errors) == min(counts.errors, 20)
    assert all(1 <= error.line <= lines and error.problem for error in scrape.errors)
    rows = sorted(row for family in scrape.families.values() for row in family.rows)
    assert rows == list(range(counts.samples))
    readings = readings_of(scrape, Naming("s", "t", {}), 1)
    assert sum(len(reading.values) for reading in readings) == counts.samples


def exposition(data: bytes) -> None:
    _metrics(TEXT, data, openmetrics=False)


def openmetrics(data: bytes) -> None:
    _metrics(OPENMETRICS, data, openmetrics=True)


def hostlist(data: bytes) -> None:
    names = expand(data.decode("utf-8", "backslashreplace"))
    assert len(names) <= hostlists.MAX_HOSTS
    assert all(name and not set(name) & set("[], ") for name in names)


def _whole(listed, entries: int) -> None:
    assert listed.seen == entries == len(listed.items) + listed.left_out + listed.bad
    assert len(listed.problems) == min(listed.bad, 20)


def slurm_json(data: bytes) -> None:
    text = data.decode("utf-8", "backslashreplace")
    for key, read in (("nodes", slurm.read_nodes), ("jobs", slurm.read_jobs)):
        listed = read(text)
        if text.lstrip().startswith("{"):
            _whole(listed, len(json.loads(text)[key]))


def slurm_text(data: bytes) -> None:
    text = data.decode("utf-8", "backslashreplace")
    _whole(slurm.read_nodes(text), sum(bool(line.strip()) for line in text.split("\n")))


def slurm_sacct(data: bytes) -> None:
    text = data.decode("utf-8", "backslashreplace")
    _whole(slurm.read_jobs(text), sum(bool(line) for line in text.split("\n")[1:]))


def kubernetes_json(data: bytes) -> None:
    text = data.decode("utf-8", "backslashreplace")
    for read in (kubernetes.read_nodes, kubernetes.read_jobs):
        _whole(read(text), len(json.loads(text)["items"]))


def prometheus_json(data: bytes) -> None:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return
    samples = _samples(found, "url")
    assert all(len(one.times_ns) == len(one.values) for one in samples)


SLURM_NODE = b'"name":"n1","state":["IDLE","DRAIN"],"gres":"gpu:h100:8(S:0-1)","reason":"x","reason_changed_at":{"set":true,"number":17}'
SLURM_JOB = (
    b'"job_id":4,"array_job_id":2,"array_task_id":{"set":true,"number":1},"job_state":"RUNNING","nodes":"n[1-2]",'
    b'"gres_detail":["gpu:8"],"tres_alloc_str":"cpu=1,gres/gpu=4","start_time":17'
)
POD = (
    b'"metadata":{"name":"p","namespace":"x","labels":{"job-name":"j"},"ownerReferences":[{"name":"o","controller":true}]},'
    b'"spec":{"nodeName":"n1","containers":[{"resources":{"limits":{"nvidia.com/gpu":"8"}}}],"taints":[{"key":"a","effect":"NoSchedule"}]},'
    b'"status":{"phase":"Running","startTime":"2026-11-30T08:00:00Z","capacity":{"nvidia.com/gpu":"8"},'
    b'"conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-11-30T08:00:00Z"}]}'
)

ENTRIES: dict[str, tuple[Callable[[bytes], None], tuple[bytes, ...]]] = {
    "exposition": (
        exposition,
        (
            b'# HELP h x\n# TYPE h histogram\nh_bucket{le="1"} 1 17\nh_sum 3e5\n\na{b="\\n\\"",c="d",} NaN\na 1\n',
            b'# TYPE s summary\ns{quantile="0.5"} .5\ns_count 18446744073709551615\nb{x="\xc3\xa9"} -Inf 1700000000000\n',
        ),
    ),
    "openmetrics": (
        openmetrics,
        (
            b'# TYPE h histogram\n# UNIT h \nh_bucket{le="+Inf"} 1 1.5 # {t="a"} 0.5 1e3\nh_count 2\n# EOF\n',
            b'# TYPE c counter\nc_total 5 1700000000.123456789\nc_created 1\n# TYPE i info\ni_info{v="1"} 1\n# EOF\n',
            b'# TYPE s stateset\ns{s="a"} 1\n# TYPE g gauge\ng 1 1\ng 2 2\n# EOF\n',
        ),
    ),
    "hostlist": (hostlist, (b"n[001-003,7],gpu5", b"r[1-2]n[08-11]-ib,x.y")),
    "slurm_json": (
        slurm_json,
        (
            b'{"nodes":[{%s}],"jobs":[{%s}]}' % (SLURM_NODE, SLURM_JOB),
            b'{"nodes":[{"name":"n","state":"DOWN*+DRAIN"}],"jobs":[]}',
        ),
    ),
    "slurm_text": (slurm_text, (b"NodeName=n1 Gres=gpu:8 State=IDLE+DRAIN OS=Linux x Reason=a b=c [root@17]\n",)),
    "slurm_sacct": (
        slurm_sacct,
        (
            b"JobID|State|Start|End|AllocTRES|NodeList|JobName\n1|RUNNING|17|Unknown|gres/gpu=4|n[1-2]|x\n1.batch||||||\n",
        ),
    ),
    "kubernetes_json": (kubernetes_json, (b'{"kind":"List","items":[{%s}]}' % POD,)),
    "prometheus_json": (
        prometheus_json,
        (
            b'{"resultType":"matrix","result":[{"metric":{"a":"b"},"values":[[1.5,"NaN"],[2,"3"]]}]}',
            b'{"resultType":"vector","result":[{"metric":{},"value":[1,"+Inf"]}]}',
            b'{"resultType":"scalar","result":[1,"2"]}',
        ),
    ),
}
