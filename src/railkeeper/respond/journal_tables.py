"""The journal's tables, and what SQLite must be told for them to be durable."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

SCHEMA = 1

metadata = sa.MetaData()

meta = sa.Table(
    "meta",
    metadata,
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("value", sa.JSON, nullable=False),
)

incidents = sa.Table(
    "incidents",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("revision", sa.Integer, nullable=False),
    sa.Column("status", sa.Text, nullable=False, index=True),
    sa.Column("severity", sa.Text, nullable=False),
    sa.Column("target", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("opened_at", sa.Double, nullable=False, index=True),
    sa.Column("updated_at", sa.Double, nullable=False),
    sa.Column("closed_at", sa.Double),
    sa.Column("body", sa.JSON, nullable=False),
)

actions = sa.Table(
    "actions",
    metadata,
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("revision", sa.Integer, nullable=False),
    sa.Column("incident", sa.Text, nullable=False, index=True),
    sa.Column("status", sa.Text, nullable=False, index=True),
    sa.Column("intent", sa.Text, nullable=False),
    sa.Column("target", sa.Text, nullable=False),
    sa.Column("proposed_at", sa.Double, nullable=False, index=True),
    sa.Column("updated_at", sa.Double, nullable=False),
    sa.Column("body", sa.JSON, nullable=False),
)

events = sa.Table(
    "events",
    metadata,
    sa.Column("seq", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
    sa.Column("key", sa.Text, nullable=False, unique=True),
    sa.Column("t", sa.Double, nullable=False, index=True),
    sa.Column("type", sa.Text, nullable=False),
    sa.Column("subject", sa.Text, nullable=False, index=True),
    sa.Column("body", sa.JSON, nullable=False),
)

_ADD_ONLY = "events are only ever added"
_SQLITE_RULES = tuple(
    f"CREATE TRIGGER IF NOT EXISTS no_{verb} BEFORE {verb} ON events BEGIN SELECT RAISE(ABORT, '{_ADD_ONLY}'); END"
    for verb in ("update", "delete")
)
_POSTGRESQL_RULES = (
    f"""CREATE OR REPLACE FUNCTION events_add_only() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION '{_ADD_ONLY}'; END $$""",
    "CREATE OR REPLACE TRIGGER events_add_only BEFORE UPDATE OR DELETE ON events EXECUTE FUNCTION events_add_only()",
)


def forbid_changes(db: sa.Connection) -> None:
    """Make the database itself keep the events as they were written."""
    for rule in _SQLITE_RULES if db.dialect.name == "sqlite" else _POSTGRESQL_RULES:
        db.exec_driver_sql(rule)


def prepare_sqlite(engine: sa.Engine, *, read_only: bool) -> None:
    """Make each connection durable, and let transactions begin when we say so."""

    @sa.event.listens_for(engine, "connect")
    def _connect(connection: Any, _record: Any) -> None:
        # The driver's own idea of when a transaction begins would let a reader's snapshot change under it.
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute("PRAGMA busy_timeout=5000")
        if not read_only:
            cursor.execute("PRAGMA journal_mode=WAL")
            # FULL: the log is on disk before a commit returns, so that even a power cut loses nothing acknowledged.
            cursor.execute("PRAGMA synchronous=FULL")
        cursor.close()

    @sa.event.listens_for(engine, "begin")
    def _begin(db: sa.Connection) -> None:
        db.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")
