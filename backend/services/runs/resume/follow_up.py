"""Resumes interrupted runs automatically, where their workflow says `on_interruption: resume`."""

import logging
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from backend.common import metrics
from backend.common.clock import HOUR_MS
from backend.common.errors import ApiError
from backend.services.dependencies import Services
from backend.services.runs import interruptions, interruptions_sql
from backend.services.runs.interruptions_sql import DueRow
from backend.services.runs.resume.service import RunResumer
from backend.storage.database import DatabaseUnavailableError, Tx, run_of
from backend.storage.outage import Ticker
from workflow_api.v1 import errors_pb2

_SECONDS: Final = 1.0
_MOST_AT_ONCE: Final = 100
_LONGEST_WAIT_MS: Final = HOUR_MS
"""Longest wait of an interrupted run for a free slot of its key."""

T = TypeVar("T")

_LOG = logging.getLogger(__name__)


class InterruptedRuns:
    """Starts the runs that follow interrupted ones, once a second, in every process that has a backend."""

    def __init__(self, services: Services, resumer: RunResumer) -> None:
        self._database = services.database
        self._clock = services.clock
        self._resumer = resumer
        self._ticker = Ticker("interruptions", self.round, _SECONDS)

    def start(self) -> None:
        """Starts the thread of the rounds."""
        self._ticker.start()

    def stop(self) -> None:
        """Ends the thread after the present round; may be repeated."""
        self._ticker.stop()

    def round(self) -> None:
        """Decides on the due interrupted runs; the failure of one is logged and does not affect the others."""
        now = self._clock()
        for run in self._database.read(lambda tx: interruptions_sql.due(tx, now, _MOST_AT_ONCE)):
            try:
                # The claim comes before the copies of uploaded files, so that only one backend makes them.
                if self._write(run, partial(interruptions.claim, run=run, at=self._clock())):
                    self._follow(run)
            except DatabaseUnavailableError:
                raise
            except Exception:  # noqa: BLE001 - it must not hold up the others
                metrics.BACKGROUND_FAILURES.add("interruptions")
                _LOG.exception("Interrupted run %s could not be resumed; it is tried again", run.run_id)
                self._write(run, partial(interruptions.retry, run_id=run.run_id, at=self._clock()))

    def _follow(self, run: DueRow) -> None:
        try:
            new_run_id = self._resumer.follow(run)
        except ApiError as refusal:
            if refusal.reason == errors_pb2.ERROR_REASON_IDEMPOTENCY_CONFLICT:
                # Another process, whose claim has ended, still resumes it.
                return
            now = self._clock()
            waits = refusal.reason == errors_pb2.ERROR_REASON_TOO_MANY_ACTIVE_RUNS
            if waits and now - run.interrupted_at < _LONGEST_WAIT_MS:
                self._write(run, partial(interruptions.retry, run_id=run.run_id, at=now))
                return
            why = "; ".join(f"{field} {problem}" for field, problem in refusal.problems) or refusal.message
            if self._write(run, partial(interruptions.refuse, run_id=run.run_id, why=why, at=now)):
                _LOG.warning("Interrupted run %s is not resumed", run.run_id)
        else:
            _LOG.info("Run %s resumes interrupted run %s", new_run_id, run.run_id)

    def _write(self, run: DueRow, work: Callable[[Tx], T]) -> T:
        return self._database.write(work, lock_key=run_of(run.run_id))
