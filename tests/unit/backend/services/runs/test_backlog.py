"""The backlog of a database that does not answer."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import pytest

from backend.common.clock import DAY_MS, system_clock
from backend.common.paging import Cursors
from backend.runtime.scheduling import sql
from backend.services.dependencies import Services
from backend.services.runs.backlog import Backlog
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


def test_leases_are_compared_by_the_clock_that_workers_renew_them_by(tmp_path: Path) -> None:
    with closing(DataFolder(tmp_path)) as folder, closing(folder.open_database()) as database:
        now = database.now()
        database.write(lambda tx: sql.add_lease(tx, owner="w", host="h", step_slots=4, now=now, until=now + DAY_MS))
        services = Services(database, lambda: now + 2 * DAY_MS, "dep", Cursors(b"c" * 32))
        with closing(Backlog(services, by_workflow=False)) as backlog:
            measured = {family.name: family.samples[0].value for family in backlog.measured() if family.samples}
    assert (measured["workflow_api_workers"], measured["workflow_api_workers_step_slots"]) == (1, 4)
