"""Fuzzes the reader of flow traces by coverage, with atheris: `python tests/health/fuzz_trace_guided.py RUNS FOLDER`.

Kernels run as plain Python here, memory read through ctypes, for the fuzzer must see which way they go. Each input is
read by the reference too. `fuzz_trace.py` tries the machine code.
"""

from __future__ import annotations

import ctypes
import os
import sys
import warnings
from pathlib import Path

os.environ["NUMBA_DISABLE_JIT"] = "1"

import atheris
import numpy as np


def plain_memory(words) -> None:
    """Put functions of Python in place of the machine instructions."""
    words.word_at = lambda at: np.uint64(ctypes.c_uint64.from_address(int(at)).value)
    words.byte_at = lambda at: ctypes.c_uint8.from_address(int(at)).value
    words.int32_at = lambda at: ctypes.c_int32.from_address(int(at)).value
    words.int64_at = lambda at: ctypes.c_int64.from_address(int(at)).value
    words.put_int32 = lambda at, value: setattr(ctypes.c_int32.from_address(int(at)), "value", int(value))
    words.zeros_below = lambda word: np.uint64((int(word) & -int(word)).bit_length() - 1)


with atheris.instrument_imports(include=["railkeeper.health.infer"], exclude=["numba", "numpy"]):
    from railkeeper.health.infer import word_kernels

    plain_memory(word_kernels)
    import test_trace_reader
    from trace_reference import SOUND


def main() -> None:
    runs, folder = sys.argv[1:3]
    warnings.simplefilter("ignore", RuntimeWarning)  # hashes of plain Python say that they overflow
    corpus = Path(folder, "trace")
    corpus.mkdir(parents=True, exist_ok=True)
    for number, text in enumerate(SOUND):
        (corpus / f"seed{number}").write_bytes(text)
    options = [f"-runs={runs}", "-timeout=20", "-max_len=240", "-print_final_stats=1"]
    atheris.Setup([sys.argv[0], *options, f"-artifact_prefix={folder}/trace-", str(corpus)], test_trace_reader.agree)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
