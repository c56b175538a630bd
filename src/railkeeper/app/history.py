"""The open history: what was acknowledged, first in the tick log, then in Parquet that any engine can read.

    FOLDER/log/000000000012.rklog
    FOLDER/archive/paths/date=2026-05-06/hour=13/part-000000000011.parquet

Tables: `paths` (a row a path, reporter and tick), `reports` (a row a reporter and tick), `messages` (whatever has no
decoder, as bytes). A segment of the log becomes one part per table and hour, and is removed only when all its parts
are durable; as long as it is there, its parts do not count. So a crash at any point neither loses nor doubles a row.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from railkeeper.app.history_names import add_names
from railkeeper.app.history_tables import SCHEMAS, Decoder, decode_records
from railkeeper.app.ticklog import Damage, LogRecord, TickLog, read_segment, segment_number, segments, sync_folder
from railkeeper.base.errors import InputError, OutsideError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import Path

HOUR_S = 3600
# What is small, and needed for longer than all else: an error budget is kept for a month.
KEPT_S = {"sli_hours": 32 * 86400.0}


@dataclass(frozen=True)
class Upkeep:
    """What a round of upkeep did: segments compacted, hours removed, frames that could not be read."""

    compacted: int = 0
    removed: tuple[str, ...] = ()
    damaged_frames: int = 0


class History:
    """The keeper's handle: append, sync, then acknowledge; now and then `upkeep`.

    - segment_s: a segment is ended after this time, so that it can be compacted
    - keep_s: hours that ended longer ago are removed; max_bytes: so are the oldest beyond this size of the archive
    - decoders: message kind -> function that makes tables of its records, beside those for `tick`
    - run: names this run of a keeper in its own records

    `upkeep` touches only ended segments, and may run in a thread beside `append` and `sync`.
    """

    def __init__(
        self,
        folder: Path,
        *,
        segment_s: float = 300.0,
        segment_bytes: int = 8 << 20,
        keep_s: float = 7 * 86400.0,
        max_bytes: int | None = None,
        decoders: Mapping[str, Decoder] | None = None,
    ) -> None:
        self.folder, self.run = folder, f"{time.time_ns():x}"
        self._segment_s, self._keep_s, self._max_bytes = segment_s, keep_s, max_bytes
        self._decoders = dict(decoders or {})
        newest = max((segment_number_of_part(p) for p in _parts(folder)), default=0)
        self._log = TickLog(folder / "log", segment_bytes=segment_bytes, after=newest)
        self._segment_t: float | None = None

    def append(self, record: LogRecord) -> None:
        """Remember a record for the next `sync`."""
        if self._segment_t is not None and abs(record.t - self._segment_t) >= self._segment_s:
            self._segment_t = None
            with contextlib.suppress(OutsideError):  # it is still pending: `sync` tries again, and tells
                self._log.sync()
            self._log.rotate()
        if self._segment_t is None:
            self._segment_t = record.t
        self._log.append(record)

    def sync(self) -> int:
        """Make all that was appended durable; what was appended may be acknowledged after it. Returns how many."""
        return self._log.sync()

    def upkeep(self, now: float) -> Upkeep:
        """Remove what is too old or too much, and compact the segments that have ended.

        Raises what the first segment raised that could not be compacted, after all others.
        """
        # First: on a full disk, what goes makes room for what comes.
        removed = retain(self.folder, now - self._keep_s, self._max_bytes, now=now)
        damages, failed = [], None
        for path in self._log.closed_segments():
            try:
                damages.append(compact(self.folder, path, self._decoders))
            except Exception as e:  # noqa: BLE001  one bad segment must not keep all later ones from the archive
                failed = failed or e
        # Turning a segment into tables takes ten times its size, which would otherwise be kept for the next one.
        pa.default_memory_pool().release_unused()
        if failed is not None:
            raise failed
        return Upkeep(len(damages), tuple(removed), sum(d.frames for d in damages))

    def close(self) -> None:
        """Write what is pending and let the folder go."""
        self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def compact(folder: Path, segment: Path, decoders: Mapping[str, Decoder]) -> Damage:
    """Turn one ended segment into parts of the archive, then remove it.

    Doing it again after a crash writes the same parts. A segment with a damaged frame is set aside, not removed.
    """
    number, found = segment_number(segment), Damage()
    tables = decode_records(list(read_segment(segment, found)), decoders)
    touched: set[Path] = set()
    for name, table in tables.items():
        for hour, rows in _by_hour(table):
            place = _hour_folder(folder, name, hour)
            fresh = _without_known(rows, place, number) if "tick" in rows.column_names else rows
            if fresh.num_rows:
                _write_part(place / f"part-{number:012d}.parquet", fresh)
                touched.add(place)
    for place in touched:
        for level in (place, place.parent, place.parent.parent, place.parent.parent.parent):
            sync_folder(level)
    if found.frames:
        segment.rename(segment.with_suffix(".damaged"))
    else:
        segment.unlink()
    sync_folder(segment.parent)
    return found


def _by_hour(table: pa.Table) -> Iterable[tuple[int, pa.Table]]:
    hours = pc.cast(pc.floor(pc.divide(table["t"], float(HOUR_S))), pa.int64())
    for hour in pc.unique(hours).to_pylist():
        yield hour, table.filter(pc.equal(hours, hour))


def _hour_folder(folder: Path, name: str, hour: int) -> Path:
    start = datetime.fromtimestamp(hour * HOUR_S, tz=UTC)
    return folder / "archive" / name / f"date={start:%Y-%m-%d}" / f"hour={start:%H}"


def _without_known(rows: pa.Table, place: Path, number: int) -> pa.Table:
    """Leave out what an earlier part holds already: a reporter that saw no acknowledgement has sent its tick again."""
    earlier = [p for p in place.glob("part-*.parquet") if segment_number_of_part(p) < number]
    first = pc.min(rows["tick"]).as_py()
    known = [pq.read_table(p, columns=["reporter", "tick"], filters=[("tick", ">=", first)]) for p in earlier]
    known = [t for t in known if t.num_rows]
    if not known:
        return rows
    keys = pa.concat_tables(known).group_by(["reporter", "tick"]).aggregate([])
    kept = rows.append_column("_row", pa.array(range(rows.num_rows), pa.int64()))
    kept = kept.select(["reporter", "tick", "_row"]).join(keys, ["reporter", "tick"], join_type="left anti")
    return rows.take(kept["_row"].sort())


def _write_part(path: Path, table: pa.Table) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".new")
    try:
        pq.write_table(table, temporary, compression="zstd")
        with temporary.open("rb") as f:
            os.fsync(f.fileno())
        temporary.replace(path)
    except OSError as e:
        raise OutsideError(f"{path} can't be written: {e.strerror or e}", retry=True) from e


def _parts(folder: Path, name: str = "*") -> list[Path]:
    return sorted(folder.glob(f"archive/{name}/date=*/hour=*/part-*.parquet"))


def segment_number_of_part(path: Path) -> int:
    """Return the number of the segment that a part was made from, 0 where its name is not one of ours."""
    digits = path.stem.removeprefix("part-")
    return int(digits) if digits.isdigit() else 0


def retain(folder: Path, oldest_t: float, max_bytes: int | None = None, *, now: float = 0.0) -> list[str]:
    """Remove hours that ended before `oldest_t`, then the oldest ones until at most `max_bytes` are left.

    Tables that are kept for longer go by their own time, and do not count. Returns what was removed, as
    `date=.../hour=...`. The log is never touched: it is not yet in the archive.
    """
    hours: dict[str, list[Path]] = {}
    for place in folder.glob("archive/*/date=*/hour=*"):
        table = place.parent.parent.name
        if table in KEPT_S:
            if _end_of(f"{place.parent.name}/{place.name}") <= min(oldest_t, now - KEPT_S[table]):
                shutil.rmtree(place)
            continue
        hours.setdefault(f"{place.parent.name}/{place.name}", []).append(place)
    sizes = {hour: sum(p.stat().st_size for place in places for p in place.iterdir()) for hour, places in hours.items()}
    total, removed = sum(sizes.values()), []
    for hour in sorted(hours):
        if _end_of(hour) > oldest_t and (max_bytes is None or total <= max_bytes):
            break
        for place in hours[hour]:
            shutil.rmtree(place)
        total -= sizes[hour]
        removed.append(hour)
    return removed


def _end_of(hour: str) -> float:
    start = datetime.strptime(hour, "date=%Y-%m-%d/hour=%H").replace(tzinfo=UTC)
    return start.timestamp() + HOUR_S


def connect(folder: Path, decoders: Mapping[str, Decoder] | None = None, *, only: Collection[str] = ()) -> Any:
    """Return a DuckDB connection with a view for each table, over the archive and what is still in the log.

    `only`: no others than these are made, which saves time where there are many parts.
    """
    if not folder.is_dir():
        raise InputError(str(folder), "is not there", "give the history that `railkeeper run` wrote")
    live, loaded = _read_live(folder, decoders or {})
    db = duckdb.connect()
    names = {*SCHEMAS, *live, *(p.name for p in folder.glob("archive/*"))}
    for name in sorted(names & set(only) if only else names):
        files = [str(p) for p in _parts(folder, name) if segment_number_of_part(p) not in loaded]
        _add_view(db, name, live.get(name), files)
    return db


def _read_live(folder: Path, decoders: Mapping[str, Decoder]) -> tuple[dict[str, pa.Table], set[int]]:
    records: list[LogRecord] = []
    loaded: set[int] = set()
    for path in segments(folder / "log"):
        try:
            records += read_segment(path)
        except FileNotFoundError:
            continue  # compacted just now: its parts hold it
        loaded.add(segment_number(path))
    return decode_records(records, decoders), loaded


def _add_view(db: Any, name: str, live: pa.Table | None, files: list[str]) -> None:
    sources = []
    if live is None and not files:
        live = SCHEMAS[name].empty_table() if name in SCHEMAS else None
    listed = ", ".join("'" + f.replace("'", "''") + "'" for f in files)
    archive = f"read_parquet([{listed}], hive_partitioning=false, union_by_name=true)"
    if live is not None:
        db.register(f"_live_{name}", live)
        sources.append(f'FROM "_live_{name}"' + (_not_sent_again(live, archive) if files else ""))
    if files:
        sources.append(f"FROM {archive}")
    if sources:
        db.execute(f'CREATE VIEW "{name}" AS {" UNION ALL BY NAME ".join(sources)}')


def _not_sent_again(live: pa.Table, archive: str) -> str:
    """Return the clause that leaves out ticks of the log which an earlier, compacted segment holds already."""
    if "tick" not in live.column_names or not live.num_rows:
        return ""
    return f" ANTI JOIN (FROM {archive} WHERE tick >= {pc.min(live['tick']).as_py()}) USING (reporter, tick)"


def query(folder: Path, sql: str, decoders: Mapping[str, Decoder] | None = None) -> list[dict[str, Any]]:
    """Return the rows of a SQL question to the history; raises InputError where the question is wrong."""
    db = connect(folder, decoders)
    try:
        add_names(db)
        found = db.execute(sql)
        if found is None or found.description is None:
            raise InputError("query", "asks nothing", f"tables: {', '.join(sorted(SCHEMAS))}")
        names = [c[0] for c in found.description]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]
    except duckdb.Error as e:
        raise InputError("query", str(e).splitlines()[0], f"tables: {', '.join(sorted(SCHEMAS))}") from e
    finally:
        db.close()
