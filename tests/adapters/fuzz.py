"""Fuzzes one reader by coverage, with atheris: `python tests/adapters/fuzz.py NAME RUNS FOLDER [OPTION...]`.

Kernels run as plain Python here (unless COMPILED is set), for the fuzzer must see which way they go.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

if os.environ.get("COMPILED"):
    import railkeeper.adapters.exposition_kernels  # noqa: F401 - before it could be instrumented, which Numba can't compile
else:
    os.environ["NUMBA_DISABLE_JIT"] = "1"

import atheris

with atheris.instrument_imports(include=["railkeeper.adapters"], exclude=["numba", "numpy"]):
    import list_entries
    import reader_entries

    from railkeeper.adapters import hostlist

ENTRIES = {**reader_entries.ENTRIES, **list_entries.ENTRIES}


def main() -> None:
    name, runs, folder, *more = sys.argv[1:]
    # Hashes of plain Python say that they overflow; compiled ones just do.
    warnings.simplefilter("ignore", RuntimeWarning)
    # A million names are within the limit, and take their time; what is looked for lies elsewhere.
    hostlist.MAX_HOSTS = 2000
    entry, texts = ENTRIES[name]
    corpus = Path(folder, name)
    corpus.mkdir(parents=True, exist_ok=True)
    for number, text in enumerate(texts):
        (corpus / f"seed{number}").write_bytes(text)
    options = [f"-runs={runs}", "-timeout=20", "-rss_limit_mb=4096", "-max_len=1000", "-print_final_stats=1"]
    arguments = [sys.argv[0], *options, *more, f"-artifact_prefix={folder}/{name}-", str(corpus)]
    atheris.Setup(arguments, lambda data: reader_entries.allowed(entry, data))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
