"""Starts runs at the due times of schedules, once among all processes."""

import hashlib
import json
import logging
from concurrent.futures import wait
from typing import Final

from backend.common import metrics
from backend.common.errors import ApiError
from backend.common.principal import Principal
from backend.services.dependencies import Services
from backend.services.runs import interruptions_sql
from backend.services.runs.start.rules import ParsedStart, ScheduledStart, parse_start
from backend.services.runs.start.service import RunStarter
from backend.services.schedules import sql
from backend.services.schedules.rules import DueStart, due_start, idempotency_key
from backend.services.workflows import schedules_sql
from backend.services.workflows.schedule_outcomes import (
    ACTOR,
    Missed,
    Outcome,
    SkipReason,
    definition_of,
    fail,
    label_of,
    skip,
    with_outcome,
)
from backend.services.workflows.schedules import following
from backend.storage.database import DatabaseUnavailableError, Tx, key_of
from backend.storage.outage import Ticker
from backend.storage.tables.schedules import ScheduleRow
from workflow_api.v1 import errors_pb2, runs_pb2

_SECONDS: Final = 1.0
# Bounds the due times of one schedule in one round.
_MOST_AT_ONCE: Final = 10
STARTS_LOCK: Final = key_of("")
"""Lock key of all starts without an API key: it serialises decisions on schedules among all processes."""

_LOG = logging.getLogger(__name__)


class _SupersededError(Exception):
    """Another process has decided first, or the schedule has changed; the transaction is rolled back."""


class ScheduleRunner:
    """Decides on due times once a second, in every process that has a backend.

    One transaction writes a decision with its effects: the run with its row in `schedule_starts`, or the skip with its
    audit record and messages. The transaction fails if the schedule's row has changed since the decision, so that only
    one process takes effect.
    """

    def __init__(self, services: Services, starter: RunStarter) -> None:
        self._services = services
        self._database = services.database
        self._clock = services.clock
        self._starter = starter
        self._ticker = Ticker("schedules", self.round, _SECONDS)
        self._last_round_at: int | None = None

    def start(self) -> None:
        """Starts the thread of the rounds."""
        self._ticker.start()

    def stop(self) -> None:
        """Ends the thread after the present round; may be repeated."""
        self._ticker.stop()

    def round(self) -> None:
        """Decides on all due schedules; the failure of one is logged and does not affect the others."""
        now = self._clock()
        if self._last_round_at is None or now < self._last_round_at:
            self._plan_anew(now)
        self._last_round_at = now
        for schedule_id in self._database.read(lambda tx: sql.due(tx, now)):
            try:
                self._decide(schedule_id)
            except DatabaseUnavailableError:
                raise
            except Exception:  # noqa: BLE001 - it must not hold up the others
                metrics.BACKGROUND_FAILURES.add("schedules")
                _LOG.exception("Schedule %s could not be decided; it is tried again", schedule_id)

    def _plan_anew(self, now: int) -> None:
        """Recomputes due times that a clock ahead of time has put too far into the future."""

        def work(tx: Tx) -> None:
            sql.delete_past_planned(tx, now - sql.KEPT_MS)
            for row in sql.ahead(tx, now):
                next_at = following(definition_of(row), now)
                if next_at != row.next_at:
                    schedules_sql.change(tx, row._replace(next_at=next_at))

        self._database.write(work, lock_key=STARTS_LOCK)

    def _decide(self, schedule_id: str) -> None:
        for _ in range(_MOST_AT_ONCE):
            now = self._clock()
            # Checked by a read first: a queued due time may wait for days, and each write delays starts by people.
            if not self._database.snapshot(lambda tx: _is_due(tx, schedule_id, now)):  # noqa: B023 - called at once
                return
            found = self._database.write(
                lambda tx: self._write_decision(tx, schedule_id, now),  # noqa: B023 - called at once
                lock_key=STARTS_LOCK,
            )
            if found is None:
                return
            row, decision = found
            if decision is not None:
                self._start(row, decision, now)

    def _write_decision(self, tx: Tx, schedule_id: str, now: int) -> tuple[ScheduleRow, DueStart | None] | None:
        """Writes a skip or queues a due time, or returns the decision to start a run; None if nothing is due."""
        row = sql.get(tx, schedule_id)
        if row is None or row.paused:
            return None
        label = label_of(row)
        in_flight = _blocking_run(tx, row)
        if row.waiting_at is not None and in_flight is None:
            return row, DueStart(row.waiting_at, None, row.next_at, from_queue=True)
        decision = due_start(row, now)
        if decision is None:
            return None
        if decision.due_at is None:
            assert decision.missed is not None
            schedules_sql.change(tx, _skip_missed(tx, row, decision.missed, now)._replace(next_at=decision.next_at))
            return row, None
        if sql.started_run(tx, row, label, decision.due_at) is not None:
            # Started before the clock was put back.
            schedules_sql.change(tx, row._replace(next_at=decision.next_at))
            return row, None
        if in_flight is None and row.waiting_at is None:
            return row, decision
        if decision.missed is not None:
            _skip_missed(tx, row, decision.missed, now)
        if definition_of(row)["overlap"] == "queue" and row.waiting_at is None:
            queued = with_outcome(row, Outcome.QUEUED, decision.due_at, now, run_id=in_flight)
            schedules_sql.change(tx, queued._replace(next_at=decision.next_at, waiting_at=decision.due_at))
            return row, None
        reason = SkipReason.IN_FLIGHT if row.waiting_at is None else SkipReason.QUEUE_FULL
        skipped = skip(tx, row, reason, Missed(1, decision.due_at, decision.due_at), now, run_id=in_flight)
        schedules_sql.change(tx, skipped._replace(next_at=decision.next_at))
        return row, None

    def _start(self, row: ScheduleRow, decision: DueStart, now: int) -> None:
        assert decision.due_at is not None

        def admit(tx: Tx, run_id: str) -> None:
            assert decision.due_at is not None
            current = _require_unchanged(tx, row)
            if _blocking_run(tx, row) is not None:
                raise _SupersededError
            if decision.missed is not None:
                current = _skip_missed(tx, current, decision.missed, now)
            sql.add_start(tx, row, label_of(row), run_id, decision.due_at, now)
            started = with_outcome(current, Outcome.STARTED, decision.due_at, now, run_id=run_id)
            schedules_sql.change(tx, _after(started, decision))

        try:
            start = _parsed_start(row, decision.due_at, now)._replace(
                scheduled=ScheduledStart(label_of(row), decision.due_at, admit)
            )
            deferred = self._starter.start_parsed(start, Principal(None, row.created_by or ACTOR, ""))
            wait([deferred.change])
            deferred.answer(deferred.change)
        except _SupersededError:
            return
        except ApiError as refusal:
            if refusal.reason == errors_pb2.ERROR_REASON_IDEMPOTENCY_CONFLICT:
                # Another process starts this run at the moment.
                return
            self._fail(row, decision, refusal, now)

    def _fail(self, row: ScheduleRow, decision: DueStart, refusal: ApiError, now: int) -> None:
        def work(tx: Tx) -> None:
            assert decision.due_at is not None
            current = _require_unchanged(tx, row)
            if decision.missed is not None:
                current = _skip_missed(tx, current, decision.missed, now)
            failed = fail(tx, current, decision.due_at, refusal, now)
            schedules_sql.change(tx, _after(failed, decision))

        try:
            self._database.write(work, lock_key=STARTS_LOCK)
        except _SupersededError:
            return


def _is_due(tx: Tx, schedule_id: str, now: int) -> bool:
    """Returns whether a due time has come, or a queued due time no longer waits for a run."""
    row = sql.get(tx, schedule_id)
    if row is None or row.paused:
        return False
    if row.next_at is not None and row.next_at <= now:
        return True
    return row.waiting_at is not None and _blocking_run(tx, row) is None


def _blocking_run(tx: Tx, row: ScheduleRow) -> str | None:
    """Returns the run, in flight or to be resumed, that keeps the schedule from starting another; or None."""
    if row.name is None or definition_of(row)["overlap"] == "allow":
        return None
    # In this order: a run that ends meanwhile is seen as one that is to be resumed.
    in_flight = sql.run_in_flight(tx, row, label_of(row))
    return in_flight or interruptions_sql.waiting_of_schedule(tx, row.workflow_id, label_of(row))


def _require_unchanged(tx: Tx, row: ScheduleRow) -> ScheduleRow:
    """Returns the schedule's row if it equals the row that was decided on.

    Raises:
        _SupersededError: the row has changed.
    """
    current = sql.get(tx, row.schedule_id)
    if current != row:
        raise _SupersededError
    return current


def _after(row: ScheduleRow, decision: DueStart) -> ScheduleRow:
    """Returns the row after a decision, without the definition of a planned start, which may hold personal data."""
    row = row._replace(waiting_at=None) if decision.from_queue else row._replace(next_at=decision.next_at)
    return row._replace(definition="{}") if row.name is None else row


def _parsed_start(row: ScheduleRow, due_at: int, now: int) -> ParsedStart:
    """Returns the parsed start of a due time; its idempotency key depends on schedule and time alone."""
    key = idempotency_key(row, due_at)
    start = parse_start(start_request(row, key), None, now)
    return start._replace(fingerprint=hashlib.sha256(key.encode()).hexdigest())


def start_request(row: ScheduleRow, key: str) -> runs_pb2.StartRunRequest:
    """Returns the request that starts a run of a schedule or planned start, with idempotency key `key`."""
    definition = definition_of(row)
    return runs_pb2.StartRunRequest(
        workflow_id=row.workflow_id,
        idempotency_key=key,
        parameters=json.dumps(definition["parameters"]),
        input_text=definition.get("input_text"),
        client_reference=definition.get("client_reference"),
        labels=definition.get("labels"),
        version=definition.get("version"),
        triggered_by=runs_pb2.TRIGGERED_BY_SCHEDULE,
    )


def record_trigger(tx: Tx, row: ScheduleRow, run_id: str, now: int) -> None:
    """Records that a person started a run of the schedule."""
    sql.add_start(tx, row, label_of(row), run_id, None, now)
    schedules_sql.change(tx, with_outcome(row, Outcome.STARTED, None, now, run_id=run_id))


def _skip_missed(tx: Tx, row: ScheduleRow, missed: Missed, now: int) -> ScheduleRow:
    return skip(tx, row, SkipReason.MISSED, missed, now)
