"""A server that is too slow, silent, or not the one that takes changes: callers get an error in time."""

import threading
from collections.abc import Callable, Iterator

import psycopg
import pytest
from sqlalchemy import func, literal_column, select

from backend.storage.database import DatabaseUnavailableError
from backend.storage.dialects.postgresql.connection import DatabaseTimeouts
from backend.storage.dialects.postgresql.database import PostgresqlDatabase
from backend.storage.statements import ScalarQuery
from tests.support.long_wire import LongWire
from tests.support.poll import until
from tests.unit.backend.storage.dialects.postgresql.notes import ALL, HeldChange, add, add_once, notes

SLEEP = ScalarQuery[None](select(func.pg_sleep(3600)))
TURN_READ_ONLY = ScalarQuery[str](
    select(func.set_config("default_transaction_read_only", "on", literal_column("false")))
)


@pytest.fixture
def impatient(url: str, database: PostgresqlDatabase) -> Iterator[PostgresqlDatabase]:
    impatient = PostgresqlDatabase(url, 1, DatabaseTimeouts(statement_ms=90, lock_ms=80))
    yield impatient
    impatient.close()


def test_a_statement_past_its_time_out_fails_and_the_next_one_succeeds(impatient: PostgresqlDatabase) -> None:
    for use in (impatient.read, impatient.snapshot, impatient.write):
        with pytest.raises(DatabaseUnavailableError):
            use(lambda tx: tx.scalar(SLEEP))
    add(impatient, 1)
    assert notes(impatient) == {1: "text"}


def test_waiting_for_a_lock_past_its_time_out_fails(
    database: PostgresqlDatabase, impatient: PostgresqlDatabase
) -> None:
    one = HeldChange(lambda work: database.write(work, lock_key="key 1"))
    until(lambda: one.begun, "the first change")
    with pytest.raises(DatabaseUnavailableError):
        impatient.write(lambda tx: tx.all(ALL), lock_key="key 1")
    with pytest.raises(DatabaseUnavailableError):
        add_once(impatient, 1)
    one.end()
    assert notes(impatient) == {}


def hold_a_name(database: PostgresqlDatabase) -> None:
    with database.try_advisory_lock("name"):
        pytest.fail("it cannot be held")


USES: dict[str, Callable[[PostgresqlDatabase], object]] = {
    "read": lambda database: database.read(lambda tx: tx.all(ALL)),
    "snapshot": lambda database: database.snapshot(lambda tx: tx.all(ALL)),
    "write": lambda database: add(database, 1),
    "single round trip": lambda database: add_once(database, 1),
    "hold": hold_a_name,
}


@pytest.mark.parametrize("use", USES)
def test_a_server_that_stops_answering_is_not_waited_for(url: str, use: str) -> None:
    parts = psycopg.conninfo.conninfo_to_dict(url)
    wire = LongWire(str(parts["host"]), int(parts.get("port") or 5432))
    threading.Thread(target=wire.serve, daemon=True).start()
    silent = PostgresqlDatabase(
        psycopg.conninfo.make_conninfo(url, host="127.0.0.1", port=wire.port),
        1,
        DatabaseTimeouts(all_attempts_seconds=1),
    )
    assert silent.healthy()
    wire.one_way_seconds = 3600
    with pytest.raises(DatabaseUnavailableError):
        USES[use](silent)
    silent.close()


def test_a_server_that_became_read_only_is_connected_anew(database: PostgresqlDatabase) -> None:
    database.read(lambda tx: tx.scalar(TURN_READ_ONLY))
    with pytest.raises(DatabaseUnavailableError):
        add(database, 1)
    add(database, 1)
    assert notes(database) == {1: "text"}
