"""Connections to a PostgreSQL server, and the time-outs that keep a slow or silent one from being waited for."""

import time
from dataclasses import dataclass
from typing import Final, TypeAlias

import psycopg
from psycopg.rows import TupleRow
from sqlalchemy import Engine, create_engine

from backend.storage.dialects.postgresql.deadlines import Deadlines
from backend.storage.dialects.postgresql.text import register_text

APPLICATION: Final = "workflow-api"
"""The name by which the server shows sessions of this service."""
Connection: TypeAlias = psycopg.Connection[TupleRow]
Cursor: TypeAlias = psycopg.Cursor[TupleRow]


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long anything may take; callers wait for 15 seconds (edge.backend_seconds).

    No statement of ours takes a second by itself, and one that does not end must not hold its locks for ever.
    """

    connect_seconds: int = 5
    pool_seconds: float = 3
    attempts_seconds: int = 11
    statement_ms: int = 9_000
    lock_ms: int = 8_000
    idle_ms: int = 60_000


def connect(url: str, timeouts: Timeouts, deadlines: Deadlines) -> Connection:
    """Opens a connection that commits each statement by itself unless a transaction is begun."""
    connection: Connection = psycopg.connect(
        url,
        autocommit=True,
        # Statements come with the placeholders that PostgreSQL itself reads: no text of one is parsed here.
        cursor_factory=psycopg.RawCursor,
        connect_timeout=timeouts.connect_seconds,
        keepalives_idle=5,
        keepalives_interval=2,
        keepalives_count=3,
        tcp_user_timeout=timeouts.attempts_seconds * 1000,
        application_name=APPLICATION,
    )
    # A pooler may have taken the connection and have no server for it.
    with deadlines.watched(connection, time.monotonic() + timeouts.connect_seconds):
        # Who waited for a lock must see what was committed before it had it, whatever the server's own default is.
        connection.execute(
            "SET default_transaction_isolation = 'read committed';"
            f"SET statement_timeout = {timeouts.statement_ms}; SET lock_timeout = {timeouts.lock_ms};"
            f"SET idle_in_transaction_session_timeout = {timeouts.idle_ms}"
        )
    register_text(connection)
    return connection


def engine_of(url: str) -> Engine:
    """Returns SQLAlchemy's engine, for migrations."""
    seconds = Timeouts().connect_seconds
    return create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(url, connect_timeout=seconds))
