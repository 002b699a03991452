"""Announcements between the processes of one server, by NOTIFY and LISTEN.

One thread a process sends announcements after the commit, those of many changes together: a NOTIFY within each change
would make all changes commit one after the other.
"""

import logging
import secrets
import threading
from collections.abc import Callable, Collection, Iterator
from typing import Final

import psycopg

from backend.storage.commits import Listener, Listeners
from backend.storage.dialects.postgresql.connection import Connection, break_connection, error_summary
from backend.storage.outage import OUTAGE, RepeatedDatabaseWork

_CHANNEL: Final = "workflow_api_changes"
# PostgreSQL takes payloads of less than 8,000 bytes.
_PAYLOAD_BYTES: Final = 7_900
# Names kept while the server cannot be reached; afterwards listeners read everything again anyway.
_MOST_KEPT: Final = 10_000
_RETRY_SECONDS: Final = 1.0

_LOG = logging.getLogger(__name__)


class Announcements:
    """Sends the names that this process announces, and passes names from all processes to its listeners.

    `connect` opens a connection outside of the pool. Connections are opened when they are needed.
    """

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self._listeners = Listeners()
        # Marks this process's own announcements, which its listeners got directly.
        self._sender = secrets.token_hex(4)
        self._wanted = threading.Condition()
        self._names: set[str] = set()
        self._ended = threading.Event()
        self._listening: Connection | None = None
        self._sending_thread: threading.Thread | None = None
        self._listening_thread: threading.Thread | None = None
        self._sends = _AnnouncementRounds(
            _LOG, "Changes cannot be announced to other processes now", "Changes are announced to other processes again"
        )
        self._receives = _AnnouncementRounds(
            _LOG,
            "Announcements of other processes are not received now",
            "Announcements of other processes are received again",
        )

    def listen(self, listener: Listener, name: str | None = None) -> None:
        """Calls the listener from now on; with None after each time that the connection was lost."""
        if self._listeners.add(listener, name):
            self._listening_thread = self._started(self._listen, "announcements-in")

    def send(self, names: set[str]) -> None:
        """Notifies the listeners of this process now, and listeners of other processes soon."""
        self._listeners.notify(names)
        with self._wanted:
            if self._ended.is_set() or len(self._names) > _MOST_KEPT:
                return
            self._names |= names
            if self._sending_thread is None:
                self._sending_thread = self._started(self._send, "announcements-out")
            self._wanted.notify()

    def close(self) -> None:
        """Sends the names that wait, and ends both connections."""
        self._ended.set()
        with self._wanted:
            self._wanted.notify()
        listening = self._listening
        if listening is not None:
            break_connection(listening)
        for thread in (self._sending_thread, self._listening_thread):
            if thread is not None:
                thread.join()

    @staticmethod
    def _started(target: Callable[[], None], name: str) -> threading.Thread:
        thread = threading.Thread(target=target, name=name, daemon=True)
        thread.start()
        return thread

    def _send(self) -> None:
        while names := self._next_names():
            try:
                with self._connected() as connection:
                    # A crash of the server may lose an announcement of a durable change.
                    connection.execute("SET synchronous_commit = off")
                    while names:
                        for payload in _payloads(self._sender, names):
                            connection.execute("SELECT pg_notify($1, $2)", (_CHANNEL, payload))
                        self._sends.succeeded()
                        names = self._next_names()
            except Exception as error:  # noqa: BLE001 - whatever fails, other processes get later changes
                if self._ended.is_set():
                    return
                with self._wanted:
                    self._names |= names
                self._sends.failed(error)
                self._ended.wait(_RETRY_SECONDS)

    def _connected(self) -> Connection:
        try:
            return self._connect()
        except psycopg.OperationalError as error:
            raise OUTAGE.error("The database cannot be reached", error_summary(error)) from error

    def _next_names(self) -> set[str]:
        """Waits for names to send; returns none once all are sent and no more will come."""
        with self._wanted:
            self._wanted.wait_for(lambda: self._names or self._ended.is_set())
            names, self._names = self._names, set()
        return names

    def _listen(self) -> None:
        while not self._ended.is_set():
            try:
                with self._connected() as connection:
                    connection.execute(f"LISTEN {_CHANNEL}")
                    self._receives.succeeded()
                    self._listening = connection
                    # Names may have been announced before this connection was open.
                    self._listeners.notify(None)
                    self._receive(connection)
            except Exception as error:  # noqa: BLE001 - whatever fails, later changes are received
                if not self._ended.is_set():
                    self._receives.failed(error)
            self._listening = None
            self._ended.wait(_RETRY_SECONDS)

    def _receive(self, connection: Connection) -> None:
        while not self._ended.is_set():
            for notify in connection.notifies(timeout=_RETRY_SECONDS):
                sender, _, names = notify.payload.partition(" ")
                if sender != self._sender:
                    self._listeners.notify(names.split(" "))


class _AnnouncementRounds(RepeatedDatabaseWork):
    """Rounds of sending or listening; a lost connection is logged at `debug`, a failure to reconnect as usual."""

    def failed(self, error: Exception, *, traceback: bool = True) -> None:
        if isinstance(error, psycopg.OperationalError):
            _LOG.debug("A connection for announcements was lost: %s", error_summary(error))
        else:
            super().failed(error, traceback=traceback)


def _payloads(sender: str, names: Collection[str]) -> Iterator[str]:
    """Yields texts that together hold all names, each within PostgreSQL's bound."""
    text = sender
    for name in names:
        if len(text) + 1 + len(name) > _PAYLOAD_BYTES:
            yield text
            text = sender
        text += f" {name}"
    yield text
