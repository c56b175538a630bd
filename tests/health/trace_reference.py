"""The format of flow traces in plain words of Python, slow and simple: what the compiled reader must agree with."""

from __future__ import annotations

import random
import re
from itertools import pairwise

BLANK = b" \t\r"
WHOLE = re.compile(rb"[0-9]{1,18}")
DECIMAL = re.compile(rb"[+-]?(?=[0-9.]*[0-9])[0-9]*\.?[0-9]*([eE][+-]?[0-9]+)?")


class WrongError(Exception):
    """A line that is not of the format; its number is the argument."""


def fields_of(line):
    return [word for word in re.split(rb"[ \t\r]+", line) if word]


def node(word, number):
    if not WHOLE.fullmatch(word) or int(word) >= 1 << 31:
        raise WrongError(number)
    return int(word)


def read(data):
    """Return flows (src, dst, first, last, path, sent, lost, line) and listed paths; raises WrongError."""
    flows, listed = [], []
    for number, line in enumerate(data.split(b"\n"), 1):
        name, *words = fields_of(line) or [b""]
        if name in (b"", b"FPRT", b"Failing_link"):
            continue
        if name == b"FID":
            ends = [node(word, number) for word in words[:4]]
            if len(words) not in (6, 8) or not all(DECIMAL.fullmatch(word) for word in words[4:]):
                raise WrongError(number)
            flows.append([*ends, None, -1, 0, number])
        elif name == b"SS":
            if len(words) != 4 or not DECIMAL.fullmatch(words[0]) or not all(WHOLE.fullmatch(w) for w in words[1:]):
                raise WrongError(number)
            sent, lost = int(words[1]), int(words[2])
            if not flows or lost > sent:
                raise WrongError(number)
            flows[-1][5:7] = sent, lost
        elif name in (b"FP", b"FPT"):
            path = tuple(node(word, number) for word in words)
            if not path or (name == b"FPT" and (not flows or flows[-1][4] not in (None, path))):
                raise WrongError(number)
            if name == b"FP":
                listed.append(path)
            else:
                flows[-1][4] = path
        else:
            raise WrongError(number)
    return [tuple(flow) for flow in flows], listed


def columns(trace):
    """Return a Trace as `read` does."""
    paths = rows(trace.path_start, trace.path_nodes)
    flows = [
        (s, d, a, b, paths[p] if p >= 0 else None, n, x, line)
        for s, d, a, b, p, n, x, line in zip(
            *(c.tolist() for c in (trace.src, trace.dst, trace.first, trace.last, trace.path, trace.sent, trace.lost,
                                   trace.line)), strict=True)
    ]  # fmt: skip
    return flows, rows(trace.listed_start, trace.listed_nodes)


def rows(start, nodes):
    at = start.tolist()
    return [tuple(nodes[a:b].tolist()) for a, b in pairwise(at)]


SOUND = (
    b"Failing_link 3 4 0.01\nFP 0 50 1\nFP 0 51 1\nFID  10000 10001 0 1 31500 0.0\nFPT 0 50 1\nSS  683.961249 21 1 0\n",
    b"FID 50 10001 50 1 60000 1e3\nFPT 50 1\nFPRT 1 50\nSS 1. 40 0 0\nSS .5 80 3 2\n",
    b"FID\t1 2 3 4 99 100 7 -1.5E-3\r\nFPT 3 4\r\nSS 0 0 0 0\r\n\r\nFID 1 2 3 4 5 6",
)
PIECES = (
    b"FID ", b"FPT ", b"FP ", b"SS ", b"FPRT ", b"Failing_link ", b"\n", b" ", b"  ", b"\t", b"\r", b"0", b"7", b"123",
    b"12345678", b"123456789", b"2147483647", b"2147483648", b"999999999999999999", b"1000000000000000000", b"-1",
    b"1.5", b".", b"1e", b"1e5", b"1E+5", b"+", b"-", b"e", b"F", b"FPX", b"SSS", b"\0", b"\xff", b"/", b":",
    b"FID 1 2 3 4 5 6\n", b"FPT 3 4\n", b"SS 1 9 2 0\n", b"FP 3 9 4\n",
)  # fmt: skip


def mutated(rng: random.Random) -> bytes:
    """Return a sound trace after a few random changes."""
    data = bytearray(rng.choice(SOUND))
    for _ in range(rng.randrange(4)):
        at = rng.randrange(len(data) + 1)
        way = rng.randrange(5)
        if way == 0:
            data[at:at] = rng.choice(PIECES)
        elif way == 1:
            del data[at : at + rng.randrange(1, 9)]
        elif way == 2 and at < len(data):
            data[at] = rng.randrange(256)
        elif way == 3:
            data[at:at] = data[rng.randrange(len(data) + 1) :][: rng.randrange(40)]
        else:
            data[at : at + rng.randrange(12)] = rng.choice(PIECES)
    return bytes(data)
