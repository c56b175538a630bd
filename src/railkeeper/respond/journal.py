"""The journal: incidents, actions and everything that happened to them, durable, in SQL.

SQLite in a file by default, PostgreSQL by URL. What `record` has returned from survives the death of the process at
any later point. Writing the same thing twice leaves one record: rows carry a revision that never goes back, and an
event has a key of its own. Events are only ever added. Times are arguments; the journal reads no clock.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from railkeeper.base.errors import CapabilityError, InputError, OutsideError
from railkeeper.respond import journal_tables as tables
from railkeeper.respond.actions import DONE, Action
from railkeeper.respond.faultview import as_fault
from railkeeper.respond.incidents import Incident, IncidentStatus
from railkeeper.respond.responder import REMEMBER_S, ResponseState, Step, restored

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from railkeeper.health.fault import Fault

_RIGHT_URL = "sqlite:///state/journal.db or postgresql+psycopg://user@host/name"


class Journal:
    """An open journal. One process writes; any number may read. Use `Journal.open`, and `close` it (or `with`)."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    @classmethod
    def open(cls, url: str, *, read_only: bool = False) -> Journal:
        """Open the journal at a database URL (or a path of an SQLite file), creating it unless `read_only`.

        Raises InputError for a URL that can't be one, a file that is missing or no journal, a journal of a later
        release; CapabilityError where the database's driver is missing; OutsideError where it does not answer.
        """
        parsed = _parse_url(url)
        if parsed.get_backend_name() == "sqlite":
            _check_file(parsed, read_only=read_only)
        try:
            options = {"postgresql_readonly": True} if read_only and parsed.get_backend_name() == "postgresql" else {}
            engine = sa.create_engine(_with_mode(parsed, read_only=read_only), execution_options=options)
        except (ImportError, sa.exc.NoSuchModuleError) as e:
            raise CapabilityError(
                f"{_shown(parsed)}: the driver is not installed ({e}); pip install psycopg[binary]"
            ) from e
        if parsed.get_backend_name() == "sqlite":
            tables.prepare_sqlite(engine, read_only=read_only)
        journal = cls(engine)
        try:
            journal._check_schema(_shown(parsed), create=not read_only)
        except BaseException:
            journal.close()
            raise
        return journal

    def close(self) -> None:
        """Let the database go."""
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- writing --------------------------------------------------------------------------------
    def record(
        self,
        *,
        incidents: Iterable[Incident] = (),
        actions: Iterable[Action] = (),
        events: Iterable[dict[str, Any]] = (),
        notes: dict[str, Any] | None = None,
    ) -> None:
        """Write all of this or nothing, durably; returns when it is on disk.

        Each changed incident and action also adds an event. `events` are further ones, each with `key` (unique: a
        second one of the same key is ignored), `t`, `type`, `subject` and `body`. `notes` replace named values.
        """
        rows_i, rows_a = list(incidents), list(actions)
        added = [*map(_incident_event, rows_i), *map(_action_event, rows_a), *events]
        with self._transaction() as db:
            for table, rows in (
                (tables.incidents, map(_incident_row, rows_i)),
                (tables.actions, map(_action_row, rows_a)),
            ):
                for row in rows:
                    db.execute(self._newer(table, row))
            for event in added:
                db.execute(self._insert(tables.events).values(**event).on_conflict_do_nothing())
            for key, value in (notes or {}).items():
                db.execute(self._replace_note(key, value))

    def record_step(self, step: Step, *, notes: dict[str, Any] | None = None) -> None:
        """Write what a step of the response has changed, and the counters that a restart goes on from."""
        if not (step.incidents or step.actions or step.denied_changed or notes):
            return
        kept = {"next_incident": step.state.next_incident, "deny_version": step.state.version}
        self.record(incidents=step.incidents, actions=step.actions, notes={**kept, **(notes or {})})

    def heartbeat(self, t: float, body: dict[str, Any]) -> None:
        """Write what the keeper says of itself at `t`, in place of what it said before."""
        self.record(notes={"heartbeat": {"t": t, **body}})

    # -- reading --------------------------------------------------------------------------------
    def incidents(self, *, only_open: bool = False, limit: int | None = None) -> list[Incident]:
        """Return incidents, newest first."""
        t = tables.incidents
        query = sa.select(t.c.body).order_by(t.c.opened_at.desc(), *_by_number(t.c.id, newest_first=True)).limit(limit)
        if only_open:
            query = query.where(t.c.status != IncidentStatus.CLOSED.value)
        return [Incident.from_dict(body) for body in self._column(query)]

    def actions(self, *, only_standing: bool = False, incident: str = "", limit: int | None = None) -> list[Action]:
        """Return actions, newest first; `only_standing` leaves out those that have ended."""
        t = tables.actions
        query = (
            sa.select(t.c.body).order_by(t.c.proposed_at.desc(), *_by_number(t.c.key, newest_first=True)).limit(limit)
        )
        if only_standing:
            query = query.where(t.c.status.not_in([s.value for s in DONE]))
        if incident:
            query = query.where(t.c.incident == incident)
        return [Action.from_dict(body) for body in self._column(query)]

    def events(self, *, after: int = 0, subject: str = "", limit: int | None = None) -> list[dict[str, Any]]:
        """Return events in the order in which they were written: seq, key, t, type, subject, body."""
        t = tables.events
        query = sa.select(t).where(t.c.seq > after).order_by(t.c.seq).limit(limit)
        if subject:
            query = query.where(t.c.subject == subject)
        with self._transaction() as db:
            return [dict(row) for row in db.execute(query).mappings()]

    def note(self, key: str) -> Any:
        """Return a named value, None where it was never written."""
        found = self._column(sa.select(tables.meta.c.value).where(tables.meta.c.key == key))
        return found[0] if found else None

    def open_faults(self) -> tuple[Fault, ...]:
        """Return the faults of open incidents: what a restarted locator starts from."""
        return tuple(as_fault(i.fault) for i in self.incidents(only_open=True) if i.status is IncidentStatus.OPEN)

    def restore(self, now: float, *, remember_s: float = REMEMBER_S) -> ResponseState:
        """Return the state from which the response goes on after a restart: what is open, and what ended lately.

        `remember_s`: for how long a guardrail may ask for what has ended.
        """
        i, a, since = tables.incidents, tables.actions, now - remember_s
        lately_i = sa.select(i.c.body).where((i.c.status != IncidentStatus.CLOSED.value) | (i.c.updated_at >= since))
        lately_a = sa.select(a.c.body).where(a.c.status.not_in([s.value for s in DONE]) | (a.c.updated_at >= since))
        past_i = [Incident.from_dict(b) for b in self._column(lately_i.order_by(i.c.opened_at, *_by_number(i.c.id)))]
        past_a = [Action.from_dict(b) for b in self._column(lately_a.order_by(a.c.proposed_at, *_by_number(a.c.key)))]
        return restored(past_i, past_a, self.note("next_incident") or 1, self.note("deny_version") or 0)

    # -- inside ---------------------------------------------------------------------------------
    def _check_schema(self, shown: str, *, create: bool) -> None:
        names = self._table_names(shown)
        if create and not names:
            with self._transaction() as db:
                tables.metadata.create_all(db)
                tables.forbid_changes(db)
                row = {"key": "schema", "value": tables.SCHEMA}
                db.execute(self._insert(tables.meta).values(**row).on_conflict_do_nothing())
        elif not set(tables.metadata.tables) <= names:
            raise InputError(
                shown, "is no journal", "give the one that `railkeeper run` wrote to, or an empty database"
            )
        if (found := self.note("schema")) != tables.SCHEMA:
            raise InputError(shown, f"has schema {found!r}", f"this release reads schema {tables.SCHEMA}")

    def _table_names(self, shown: str) -> set[str]:
        try:
            with self._transaction() as db:
                return set(sa.inspect(db).get_table_names())
        except OutsideError as e:
            if "not a database" in str(e):
                raise InputError(shown, "is no journal", "give the one that `railkeeper run` wrote to") from e
            raise

    def _column(self, query: sa.Select[Any]) -> Sequence[Any]:
        with self._transaction() as db:
            return db.execute(query).scalars().all()

    @contextmanager
    def _transaction(self) -> Iterator[sa.Connection]:
        try:
            with self._engine.begin() as db:
                yield db
        except sa.exc.DBAPIError as e:
            # Operational: locked, a full disk, a server that restarts; all of these may pass.
            again = isinstance(e, sa.exc.OperationalError) or e.connection_invalidated
            first = str(e.orig).partition("\n")[0]
            raise OutsideError(f"the journal can't be used: {first}", retry=again) from e

    def _insert(self, table: sa.Table) -> sqlite.Insert | postgresql.Insert:
        # Both dialects spell "on conflict" alike; SQLAlchemy's plain insert has none.
        return postgresql.insert(table) if self._engine.dialect.name == "postgresql" else sqlite.insert(table)

    def _newer(self, table: sa.Table, row: dict[str, Any]) -> sa.Executable:
        insert = self._insert(table).values(**row)
        keys = [c.name for c in table.primary_key]
        news = {name: insert.excluded[name] for name in row if name not in keys}
        return insert.on_conflict_do_update(
            index_elements=keys, set_=news, where=insert.excluded.revision > table.c.revision
        )

    def _replace_note(self, key: str, value: Any) -> sa.Executable:
        insert = self._insert(tables.meta).values(key=key, value=value)
        return insert.on_conflict_do_update(index_elements=["key"], set_={"value": insert.excluded.value})


def _by_number(name: sa.Column[str], *, newest_first: bool = False) -> list[sa.ColumnElement[Any]]:
    # inc-9 comes before inc-10.
    order = [sa.func.length(name), name]
    return [c.desc() for c in order] if newest_first else order


def _parse_url(url: str) -> sa.URL:
    text = url if "://" in url else f"sqlite:///{url}"
    try:
        parsed = sa.make_url(text)
    except (sa.exc.ArgumentError, ValueError) as e:
        raise InputError("journal", "is not a database URL", f"e.g. {_RIGHT_URL}") from e
    if parsed.get_backend_name() not in {"sqlite", "postgresql"}:
        raise InputError("journal", f"{_shown(parsed)} is neither SQLite nor PostgreSQL", f"e.g. {_RIGHT_URL}")
    return parsed


def _shown(url: sa.URL) -> str:
    # A password can stand in the query too.
    return url.set(query={}).render_as_string(hide_password=True)


def _check_file(url: sa.URL, *, read_only: bool) -> None:
    if not url.database or url.database == ":memory:":
        raise InputError("journal", "is not in a file", f"e.g. {_RIGHT_URL}")
    path = Path(url.database)
    if read_only and not path.is_file():
        raise InputError(str(path), "is not there", "give the journal that `railkeeper run` wrote to")
    if not read_only:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise InputError(str(path), f"can't be created ({e.strerror})", "give a path that can be written") from e


def _with_mode(url: sa.URL, *, read_only: bool) -> sa.URL:
    if url.get_backend_name() != "sqlite" or not read_only:
        return url
    # A reader must never create a file, nor be able to change one.
    return url.set(database=f"file:{quote(url.database or '')}", query={"mode": "ro", "uri": "true"})


def _incident_row(i: Incident) -> dict[str, Any]:
    return {
        "id": i.id, "revision": i.revision, "status": i.status.value, "severity": i.impact.severity.value,
        "target": i.fault.target, "kind": i.fault.kind, "opened_at": i.opened_at, "updated_at": i.updated_at,
        "closed_at": i.closed_at, "body": _plain(i.to_dict()),
    }  # fmt: skip


def _action_row(a: Action) -> dict[str, Any]:
    return {
        "key": a.key, "revision": a.revision, "incident": a.incident, "status": a.status.value, "intent": a.intent,
        "target": a.target, "proposed_at": a.proposed_at, "updated_at": a.updated_at, "body": _plain(a.to_dict()),
    }  # fmt: skip


def _incident_event(i: Incident) -> dict[str, Any]:
    news = [e.text for e in i.timeline if e.t == i.updated_at]
    body = {"status": i.status.value, "severity": i.impact.severity.value, "target": i.fault.target, "news": news}
    return {
        "key": f"{i.id}@{i.revision}", "t": i.updated_at, "type": "incident", "subject": i.id, "body": body,
    }  # fmt: skip


def _action_event(a: Action) -> dict[str, Any]:
    body = {"status": a.status.value, "links": len(a.links), "refused": [v.reason for v in a.refusals], "note": a.note}
    return {
        "key": f"{a.key}@{a.revision}", "t": a.updated_at, "type": "action", "subject": a.key, "body": body,
    }  # fmt: skip


def _plain(value: dict[str, Any]) -> Any:
    # Through JSON once, so that enums become text and tuples lists, whatever the database does with JSON.
    return json.loads(json.dumps(value, allow_nan=False))
