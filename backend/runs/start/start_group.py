"""The starts that one transaction decides, one after the other, with one statement for each table at its end.

A group commit takes what many callers start at once. Row by row and start by start, nine statements for each, the
writer goes from code to code and gives the interpreter's lock away at each of them; together it does each thing for
all. (`python -m benchmarks`: POST start.)
"""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Final

from backend import metrics, workflow_metrics
from backend.clock import utc_day
from backend.run_status import RunStatus
from backend.runs import lifecycle_sql, parking_sql
from backend.runs.new_events import event_rows
from backend.runs.parking import FIRST_EVENTS, ApprovalRequests, events_of_park
from backend.runs.run_reservation import BegunRun
from backend.runs.start import sql
from backend.runs.start.new_run import NewRun, Row
from backend.runs.start.parsed_start import ParsedStart
from backend.runs.start.sql import FactsRow
from backend.segment_state import SegmentState
from backend.storage.database import Tx
from backend.storage.tables.segments import StepRow
from backend.webhooks.events import Event
from backend.webhooks.outbox_sql import add_messages

# SQLite's driver would look for an adapter of what is no plain text.
_WAITING: Final = RunStatus.WAITING.value
_RUNNING: Final = RunStatus.RUNNING.value
_ENDED: Final = SegmentState.ENDED.value
_SEGMENT_RUNNING: Final = SegmentState.RUNNING.value


class StartGroup:
    """The starts that one transaction decides one after the other.

    Gives each the facts that it depends on, with the changes of those before it in the group (`facts`); collects the
    rows that each adds (`bind`, `admit`, `add_…`); and writes them all with one statement for each table (`write`).
    """

    def __init__(self, tx: Tx, starts: Sequence[ParsedStart]) -> None:
        self.tx = tx
        # One that is alone finds its record with the other facts.
        several = [(start.key_id, start.idempotency_key) for start in starts] if len(starts) > 1 else []
        self._records = sql.records(tx, several)
        self._admitted: Counter[str] = Counter()
        self._counted: Counter[tuple[str, int]] = Counter()
        self._found: dict[tuple[str, int], FactsRow] = {}
        self._rows = sql.StartRows()
        self._parked: list[tuple[str, str, int]] = []

    def facts(self, start: ParsedStart) -> FactsRow:
        """Returns what the start depends on, with what the group has admitted before it.

        Of several starts of a key, all but the idempotency records is read once.
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
        """Binds an idempotency key; `exists` says that it has a record already."""
        if exists:
            sql.bind_again(self.tx, record)
        else:
            self._rows.records.append(record)

    def admit(self, start: ParsedStart, run_id: str) -> None:
        """Counts a run that one of the next methods adds."""
        if start.trace is not None:
            self._rows.traces.append(sql.trace_row(run_id, start.trace))
        self._admitted[start.key_id] += 1
        if start.key_id:
            self._counted[start.key_id, utc_day(start.at)] += 1

    def add_queued(self, new: NewRun) -> None:
        """Adds a run whose first segment is the outbox of the launcher."""
        self._rows.runs.append(new.run)
        self._rows.steps += new.steps
        self._rows.segments.append(new.segment)

    def add_parked(self, new: NewRun, requests: ApprovalRequests, at: int) -> None:
        """Adds a run with its first segment, which has requested approvals and ended.

        Nobody has to launch such a run: its rows are written once, as its first segment would leave them. A start then
        takes a fifth less processor time: no round of the launcher, no task, no second change.
        """
        events = events_of_park(requests.events)
        rows = self._rows
        rows.runs.append(new.run._replace(status=_WAITING, started_at=at, approvals_pending=len(requests.approvals)))
        rows.steps += [requests.steps.get(step.step, step) for step in new.steps]
        rows.segments.append(
            new.segment._replace(state=_ENDED, owner=requests.owner, started_at=at, ended_at=at, last_seq=len(events))
        )
        rows.events += event_rows(new.segment.segment_id, 1, at, events)
        rows.approvals += requests.approvals
        self._parked.append((new.run_id, new.run.key_id, at))

    def add_begun(self, new: NewRun, begun: BegunRun, at: int) -> None:
        """Adds a run whose first steps have begun, on slots that this process had reserved for it.

        Nothing lies between the start and `step.started` that would have to be recorded first. That saves a round of
        the launcher, its commit, that of the segment's claim and the reads of both: of four commits of a one-step run
        two are left. (`python -m benchmarks`: a one-step run.)
        """
        events = [*FIRST_EVENTS, *begun.events]
        rows = self._rows
        rows.runs.append(new.run._replace(status=_RUNNING, started_at=at))
        rows.steps += [StepRow(**begun.steps[step.step]) if step.step in begun.steps else step for step in new.steps]
        rows.segments.append(
            new.segment._replace(state=_SEGMENT_RUNNING, owner=begun.owner, started_at=at, last_seq=len(events))
        )
        rows.events += event_rows(new.segment.segment_id, 1, at, events)
        self.tx.announce(new.run_id)

    def write(self) -> None:
        """Writes all rows."""
        tx, rows = self.tx, self._rows
        sql.add(tx, rows)
        lifecycle_sql.add_events(tx, rows.events)
        parking_sql.add_approvals(tx, rows.approvals)
        for (key_id, day), number in self._counted.items():
            sql.count_starts(tx, key_id, day, number, first=self._found[key_id, day].runs_started is None)
        has_webhooks = {key_id: sql.has_webhooks(tx, key_id) for key_id in {key_id for _, key_id, _ in self._parked}}
        for run_id, key_id, at in self._parked:
            tx.announce(run_id)
            if has_webhooks[key_id]:
                add_messages(tx, Event.RUN_WAITING, run_id, at)
        # Nothing else depends on uploads, the audit log, or the records of idempotency keys.
        for run in rows.runs:
            tx.changes_run(run.run_id, run.key_id)
        if not rows.runs:
            tx.uncounted = True
        else:
            tx.after_commit(partial(metrics.RUNS_STARTED.add_many, len(rows.runs)))
            tx.after_commit(partial(workflow_metrics.count_starts, rows.runs))
