"""Builds the packages of environments on this machine before a step needs them, and removes unused builds."""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Final

from backend.common import metrics
from backend.common.clock import Clock, is_due, is_recent
from backend.resources.environments import sql
from backend.resources.environments.build import BuiltPackages
from backend.resources.environments.lock import Lock, PackagesError
from backend.resources.environments.store import PackageStore
from backend.storage.database import Database, Tx
from backend.storage.outage import RepeatedDatabaseWork

_LOG: Final = logging.getLogger(__name__)

ROUND_SECONDS: Final = 1.0
RETRY_MS: Final = 5 * 60_000
"""Milliseconds after which a failed build is retried without a request."""
_UPKEEP_MS: Final = 3_600_000
_BUILDS_AT_ONCE: Final = 4
"""Most builds that steps wait for at once, beside the build of the builder's own thread."""
_GONE_MS: Final = 2 * 86_400_000


class PackageBuilder:
    """A thread that builds the locks of all environments one after the other, and records each outcome.

    `on_change` is called in the transaction of every record, because the readiness of workflows depends on it.
    """

    def __init__(
        self, database: Database, clock: Clock, store: PackageStore, machine: str, on_change: Callable[[Tx], None]
    ) -> None:
        self._database = database
        self._clock = clock
        self._store = store
        self._machine = machine
        self._on_change = on_change
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._next_upkeep = 0
        self._rounds = RepeatedDatabaseWork(
            _LOG, "Packages of environments cannot be kept", "Packages of environments are kept again", logging.ERROR
        )
        self._beginning = threading.Lock()
        self._begun: dict[str, Future[BuiltPackages]] = {}
        # Output of uv in the last build of each lock, until the build is recorded.
        self._logs: dict[str, str] = {}
        self._threads = ThreadPoolExecutor(_BUILDS_AT_ONCE, thread_name_prefix="package-build")

    def start(self) -> None:
        """Starts the thread."""
        self._thread = threading.Thread(target=self._run, name="package-builder", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends builds under way, which begin anew in the next process. Idempotent."""
        self._stopping.set()
        self._store.close()
        if self._thread is not None:
            self._thread.join()
        self._threads.shutdown()

    def find(self, digest: str) -> BuiltPackages | None:
        """Returns the packages of a lock, if they are built on this machine."""
        return self._store.find(digest)

    def begin(self, digest: str) -> "Future[BuiltPackages]":
        """Begins to build the packages of a lock, unless a build is under way; the future may raise PackagesError.

        The build continues when nobody waits for it: cancelling the future has no effect.
        """
        with self._beginning:
            begun = self._begun.get(digest)
            if begun is None:
                begun = self._begun[digest] = Future()
                # A running future cannot be cancelled, and others may wait for it too.
                begun.set_running_or_notify_cancel()
                try:
                    self._threads.submit(self._finish, digest, begun)
                except RuntimeError:
                    del self._begun[digest]
                    begun.set_exception(PackagesError("the service is being stopped"))
            return begun

    def round(self) -> None:
        """Builds the missing locks, and removes unused builds once an hour."""
        rows = self._database.read(lambda tx: sql.wanted(tx, self._machine))
        for row in rows:
            if self._stopping.is_set():
                return
            if row.requested_at > self._clock():
                self._ask_now(row.digest)
            if self._is_due(row):
                self._build(row.digest)
        now = self._clock()
        if is_due(self._next_upkeep, now, _UPKEEP_MS):
            self._next_upkeep = now + _UPKEEP_MS
            self._remove_unused({row.digest for row in rows})

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.round()
            except Exception as error:  # noqa: BLE001 - the thread must not end
                if not self._stopping.is_set():
                    metrics.BACKGROUND_FAILURES.add("package-builder")
                    self._rounds.failed(error)
            else:
                self._rounds.succeeded()
            self._store.wait(ROUND_SECONDS)

    def _finish(self, digest: str, begun: "Future[BuiltPackages]") -> None:
        try:
            built = self._ensure(digest)
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            outcome = partial(begun.set_exception, error)
        else:
            outcome = partial(begun.set_result, built)
        with self._beginning:
            del self._begun[digest]
        outcome()

    def _ensure(self, digest: str) -> BuiltPackages:
        return self._store.ensure(digest, lambda: self._lock(digest), partial(self._logs.__setitem__, digest))

    def _is_due(self, row: sql.WantedRow) -> bool:
        if row.state == "failed" and row.updated_at is not None and row.updated_at >= row.requested_at:
            return not is_recent(row.updated_at, self._clock(), RETRY_MS)
        return row.state != "built" or self._store.find(row.digest) is None

    def _ask_now(self, digest: str) -> None:
        """Sets the time of a request from a clock that was ahead to now, because failures before it do not count."""

        def work(tx: Tx) -> None:
            sql.request_build(tx, digest, self._clock())
            self._on_change(tx)

        self._database.write(work)

    def _build(self, digest: str) -> None:
        if self._store.find(digest) is None:
            self._record(digest, "building")
        try:
            built = self._ensure(digest)
        except PackagesError as error:
            if self._stopping.is_set():
                return
            _LOG.warning("Packages %s could not be built: %s", digest[:12], error)
            self._record(digest, "failed", message=str(error))
        else:
            self._record(digest, "built", built=built)

    def _record(self, digest: str, state: sql.State, *, message: str = "", built: BuiltPackages | None = None) -> None:
        log = self._logs.pop(digest, None)
        size, modules = (None, ()) if built is None else (built.size, built.modules)

        def work(tx: Tx) -> None:
            now = self._clock()
            sql.record_build(
                tx, digest, self._machine, state, now, message=message, size=size, modules=modules, log=log
            )
            self._on_change(tx)

        self._database.write(work)

    def _remove_unused(self, wanted: set[str]) -> None:
        removed = self._store.remove_unused(wanted)

        def work(tx: Tx) -> None:
            now = self._clock()
            sql.report_machine(tx, self._machine, now, now - _GONE_MS)
            for digest in removed:
                sql.forget_build(tx, digest, self._machine)

        if wanted or removed:
            self._database.write(work)

    def _lock(self, digest: str) -> Lock:
        lock = self._database.read(lambda tx: sql.lock_of(tx, digest))
        if lock is None:
            raise PackagesError("the lock of the environment does not exist")
        return lock
