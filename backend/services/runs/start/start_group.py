"""Batches the starts that one transaction decides, with one statement for each table at the end.

A group commit serves concurrent starts. Nine statements for each start would make the writer release the GIL at every
statement; batched statements do not. (`python -m benchmarks`: POST start.)
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from backend.common import metrics, workflow_metrics
from backend.common.clock import utc_day
from backend.common.states import RunStatus, SegmentState
from backend.services.notifications.rules import NotificationEvent
from backend.services.notifications.sql import notify_of_run
from backend.services.runs.change_records import SEGMENT_ENDED, begin_events, event_rows
from backend.services.runs.runtime_port import BegunSegment
from backend.services.runs.start import sql
from backend.services.runs.start.new_run import NewRun, Row
from backend.services.runs.start.rules import ParsedStart
from backend.services.runs.start.sql import FactsRow, KeyedRecordRow
from backend.services.webhooks.rules import WebhookEvent
from backend.services.webhooks.sql import add_messages
from backend.storage.database import Tx
from backend.storage.tables.runs import RunRow
from backend.storage.tables.segments import StepRow

# Plain texts, because SQLite's driver searches an adapter for each enum member.
_ENDED: Final = SegmentState.ENDED.value
_RUNNING: Final = SegmentState.RUNNING.value


class StartGroup:
    """The starts of one transaction, decided one after the other.

    `facts` returns the facts of a start, including the effects of earlier starts in the group; `bind` and `add` collect
    rows; `write` writes all rows with one statement for each table.
    """

    def __init__(self, tx: Tx, starts: Sequence[ParsedStart]) -> None:
        self.tx = tx
        self._records: Mapping[tuple[str, str], KeyedRecordRow] = {}
        # A single start reads its record with the other facts.
        if len(starts) > 1:
            self._records = sql.records(tx, [(start.key_id, start.idempotency_key) for start in starts])
        self._admitted: Counter[str] = Counter()
        self._counted: Counter[tuple[str, int]] = Counter()
        self._found: dict[tuple[str, int], FactsRow] = {}
        self._rows = sql.StartRows()
        self._parked: list[tuple[str, str, int]] = []

    def facts(self, start: ParsedStart) -> FactsRow:
        """Returns the facts of a start, with counters raised by runs that the group has admitted.

        For several starts of a key, only the idempotency records are read more than once.
        """
        key_id, day = start.key_id, utc_day(start.at)
        found = self._found.get((key_id, day))
        if found is None:
            found = self._found[key_id, day] = sql.facts(self.tx, key_id, start.idempotency_key, day)
            return found._replace(active_runs=found.active_runs + self._admitted[key_id])
        record = self._records.get((key_id, start.idempotency_key))
        return found._replace(
            active_runs=found.active_runs + self._admitted[key_id],
            runs_started=(found.runs_started or 0) + self._counted[key_id, day],
            fingerprint=record.fingerprint if record else None,
            run_id=record.run_id if record else None,
            first_used_at=record.first_used_at if record else None,
        )

    def bind(self, record: Row, *, exists: bool) -> None:
        """Adds an idempotency record; `exists` says that it overwrites an earlier one."""
        if exists:
            sql.overwrite_record(self.tx, record)
        else:
            self._rows.records.append(record)

    def add(self, start: ParsedStart, new: NewRun, begun: BegunSegment | None) -> RunStatus:
        """Adds and counts a run; returns its status: running or waiting if its first segment has begun, else queued.

        A run whose segment has begun is written with the changes of the claim, which saves the transactions of launcher
        and claim. (`python -m benchmarks`: POST start, a one-step run.)
        """
        rows, at, (run, steps, segment) = self._rows, start.at, new
        self._admitted[run.key_id] += 1
        if run.key_id:
            self._counted[run.key_id, utc_day(at)] += 1
        if start.trace is not None:
            rows.traces.append(sql.trace_row(run.run_id, start.trace))
        status = RunStatus.QUEUED
        if begun is not None:
            parks = bool(begun.approvals)
            status = RunStatus.WAITING if parks else RunStatus.RUNNING
            events = [*begin_events(segment.ordinal), *begun.events]
            if parks:
                events.append(SEGMENT_ENDED)
                self._parked.append((run.run_id, run.key_id, at))
            run = run._replace(status=status.value, started_at=at, approvals_pending=len(begun.approvals))
            steps = [StepRow(**begun.steps[step.step]) if step.step in begun.steps else step for step in steps]
            segment = segment._replace(
                state=_ENDED if parks else _RUNNING,
                owner=begun.owner,
                started_at=at,
                ended_at=at if parks else None,
                last_seq=len(events),
            )
            rows.events += event_rows(segment.segment_id, 1, at, events)
            rows.approvals += begun.approvals
            self.tx.announce(run.run_id)
        rows.runs.append(run)
        rows.steps += steps
        rows.segments.append(segment)
        return status

    def write(self) -> None:
        """Writes all collected rows and counters."""
        tx, rows = self.tx, self._rows
        sql.add(tx, rows)
        for (key_id, day), number in self._counted.items():
            sql.count_starts(tx, key_id, day, number, first=self._found[key_id, day].runs_started is None)
        has_webhooks: dict[str, bool] = {}
        for run_id, key_id, at in self._parked:
            if key_id not in has_webhooks:
                has_webhooks[key_id] = sql.has_webhooks(tx, key_id)
            if has_webhooks[key_id]:
                add_messages(tx, WebhookEvent.RUN_WAITING, run_id, at)
            notify_of_run(tx, NotificationEvent.RUN_WAITING, run_id, at)
        # No cached answer depends on uploads, the audit log, or idempotency records.
        for run in rows.runs:
            tx.changes_run(run.run_id, run.key_id)
        if rows.runs:
            tx.after_commit(partial(count_recorded, rows.runs))
        else:
            tx.keeps_caches_valid = True


def count_recorded(runs: Sequence[RunRow]) -> None:
    """Counts committed runs in the metrics."""
    metrics.RUNS_STARTED.add_many(len(runs))
    for run in runs:
        workflow_metrics.STARTED.add_many(1, run.workflow_id, run.workflow_name, run.key_id)
