"""Fuzzes the reader of flow traces as it is compiled: `python tests/health/fuzz_trace.py RUNS [SEED]`.

The kernels read memory by address, so it is the machine code that has to be tried. Each input is read by the reference
too: columns and the line of the first error must be the same.
"""

from __future__ import annotations

import random
import sys
import time

from test_trace_reader import agree
from trace_reference import mutated


def main() -> None:
    runs = int(sys.argv[1])
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    rng, begin, sound = random.Random(seed), time.monotonic(), 0
    for _ in range(runs):
        data = mutated(rng)
        try:
            sound += agree(data)
        except BaseException:
            print(f"input: {data!r}")
            raise
    print(f"{runs} inputs in {time.monotonic() - begin:.0f} s, {sound} of them sound: all read alike")


if __name__ == "__main__":
    main()
