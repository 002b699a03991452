"""The backlog of a database that does not answer."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import pytest

from backend.clock import system_clock
from backend.cursors import Cursors
from backend.runtime.scheduling.backlog import Backlog
from backend.services import Services
from backend.storage.database import DatabaseUnavailableError, Tx
from backend.storage.dialects.sqlite.database import SqliteDatabase
from backend.storage.factory import DATABASE_FILE, DataFolder

T = TypeVar("T")


class Interrupted(SqliteDatabase):
    """A database that can be away."""

    away = False

    def read(self, work: Callable[[Tx], T]) -> T:
        if self.away:
            raise DatabaseUnavailableError
        return super().read(work)


def test_an_outage_of_the_database_and_its_end_are_logged_once_each(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(DataFolder(tmp_path)) as folder:
        folder.open_database().close()
        with closing(Interrupted(tmp_path / DATABASE_FILE)) as database:
            backlog = Backlog(Services(database, system_clock, "dep", Cursors(b"c" * 32)), by_workflow=False)
            for away in (False, True, True, True, False, False):
                database.away = away
                up = backlog.measured()[0]
                assert (up.name, up.samples[0].value) == ("workflow_api_database_up", not away)
            backlog.close()
    assert [message.partition(":")[0] for message in caplog.messages] == [
        "The backlog cannot be read",
        "The backlog is read again",
    ]
