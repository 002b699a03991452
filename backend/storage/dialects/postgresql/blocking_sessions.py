"""Ends sessions that hold locks and do nothing, as those of a process that was frozen within a transaction.

The server's own `idle_in_transaction_session_timeout` does not end them: it does not count after statements that were
sent in a pipeline, which begin every transaction of this service.
"""

import logging
import threading
from collections.abc import Callable
from typing import Final

import psycopg

from backend.storage.dialects.postgresql.connection import APPLICATION, Connection
from backend.storage.dialects.postgresql.words import words_of
from backend.storage.outage import RepeatedRounds

_EVERY_SECONDS: Final = 2.0
# With the time between two looks less than others wait for a lock. A transaction of ours pauses for milliseconds.
_IDLE_SECONDS: Final = 5
# Another role's sessions cannot be ended, and those of people are not.
_END: Final = """
SELECT pid, pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND usename = current_user AND state LIKE 'idle in transaction%'
    AND (application_name = $1::text OR application_name LIKE 'dbos%')
    AND state_change < clock_timestamp() - make_interval(secs => $2::int)
    AND pid IN (
        SELECT unnest(pg_blocking_pids(pid)) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'
    )
"""

_LOG = logging.getLogger(__name__)


class BlockingSessions:
    """Looks every two seconds, in a thread and over a connection of its own, which `connect` opens."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self._connection: Connection | None = None
        self._ended = threading.Event()
        self._rounds = RepeatedRounds(
            _LOG, "Sessions that block others cannot be looked for", "Sessions that block others are looked for again"
        )
        self._thread = threading.Thread(target=self._run, name="blocking-sessions", daemon=True)

    def start(self) -> None:
        """Begins to look."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(_EVERY_SECONDS):
            try:
                self._end_blocking()
            except psycopg.OperationalError as error:
                # Whether the database can be reached is told elsewhere.
                _LOG.debug("The connection that looks for blocking sessions was lost: %s", words_of(error))
                self._disconnect()
            except psycopg.Error as error:
                self._rounds.failed(error)
                self._disconnect()
            else:
                self._rounds.succeeded()
        self._disconnect()

    def _end_blocking(self) -> None:
        if self._connection is None:
            self._connection = self._connect()
        for pid, _ in self._connection.execute(_END, [APPLICATION, _IDLE_SECONDS]).fetchall():
            _LOG.warning("The database session %d was ended: others waited for its locks, and it did nothing", pid)

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
