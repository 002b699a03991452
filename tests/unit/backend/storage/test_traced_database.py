"""Spans of transactions end with them."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from typing import Any, NoReturn

import pytest

from backend.storage.database import DatabaseUnavailableError
from backend.storage.dialects.sqlite.database import SqliteDatabase
from backend.storage.factory import DATABASE_FILE, DataFolder
from backend.storage.traced_database import TracedDatabase
from telemetry.otel import Tracing
from telemetry.trace_context import TRACEPARENT
from tests.support.otlp_receiver import Collector, collecting

CARRIER = {TRACEPARENT: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}


class Refusing(SqliteDatabase):
    """A database that takes no changes."""

    def write_soon(self, *_: Any, **__: Any) -> NoReturn:
        raise DatabaseUnavailableError

    write_grouped = write_soon


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as collector:
        yield collector


@pytest.fixture
def refusing(tmp_path: Path) -> Iterator[SqliteDatabase]:
    with closing(DataFolder(tmp_path)) as folder:
        folder.open_database().close()
        with closing(Refusing(tmp_path / DATABASE_FILE)) as database:
            yield database


CHANGES: dict[str, Callable[[TracedDatabase], Future[Any]]] = {
    "alone": lambda database: database.write_soon(lambda _: None),
    "grouped": lambda database: database.write_grouped(lambda _, items: [None for _ in items], 1),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_the_span_of_a_change_that_cannot_be_queued_ends(
    change: Callable[[TracedDatabase], Future[Any]], collector: Collector, refusing: SqliteDatabase
) -> None:
    recording = Tracing("backend", "1", collector.url)
    with recording.executed("segment", CARRIER, {}), pytest.raises(DatabaseUnavailableError):
        change(TracedDatabase(refusing, recording))
    recording.close(10)
    [span] = [span for span in collector.spans if span.name == "database"]
    assert span.attributes["error.type"] == "DatabaseUnavailableError"
