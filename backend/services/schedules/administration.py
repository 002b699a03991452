"""Pauses, resumes and triggers schedules, and plans starts, for people: each change is one audited transaction."""

import hashlib
from collections.abc import Callable
from typing import Final

from backend.common.clock import DAY_MS, first_millisecond_from, to_text
from backend.common.errors import ApiError, invalid, not_found_message
from backend.common.ids import new_id
from backend.common.json_text import JsonObject, canonical
from backend.common.principal import Principal
from backend.common.waits import Deferred
from backend.services.audit import sql as audit
from backend.services.dependencies import Services
from backend.services.runs.start.rules import ScheduledStart, parse_start, validate_inputs
from backend.services.runs.start.service import RunStarter
from backend.services.schedules import sql
from backend.services.schedules.runner import STARTS_LOCK, record_trigger, start_request
from backend.services.schedules.sql import ListedScheduleRow
from backend.services.workflows import schedules_sql
from backend.services.workflows import sql as workflows_sql
from backend.services.workflows.resolved_workflow import load_workflow
from backend.services.workflows.schedule_outcomes import SkipReason, definition_of, skip_queued
from backend.services.workflows.schedules import following
from backend.storage.database import Tx
from backend.storage.tables.schedules import ScheduleRow
from backend.storage.tables.workflows import WorkflowRow
from workflow_api.v1 import errors_pb2, runs_pb2, schedules_pb2

LATEST_MS: Final = 2 * 366 * DAY_MS
"""Milliseconds that a start may be planned ahead."""

MOST_PLANNED: Final = 1_000
"""Most planned starts of a workflow, including past ones that are still listed."""


class ScheduleAdministration:
    """Pauses, resumes and triggers schedules, and plans single starts."""

    def __init__(self, services: Services, starter: RunStarter) -> None:
        self._services = services
        self._starter = starter

    def pause(self, workflow: str, name: str, actor: str) -> ListedScheduleRow:
        """Pauses a schedule, and skips its queued due time."""

        def change(tx: Tx, row: ScheduleRow, now: int) -> ScheduleRow:
            if row.paused:
                return row
            row = skip_queued(tx, row, SkipReason.PAUSED, now)
            _audit(tx, now, actor, "schedule.paused", row, {"schedule": name})
            return row._replace(paused=1, next_at=None)

        return self._change(workflow, name, change)

    def resume(self, workflow: str, name: str, actor: str) -> ListedScheduleRow:
        """Ends the pause of a schedule, which starts runs from its next due time on."""

        def change(tx: Tx, row: ScheduleRow, now: int) -> ScheduleRow:
            if not row.paused:
                return row
            _audit(tx, now, actor, "schedule.resumed", row, {"schedule": name})
            return row._replace(paused=0, next_at=following(definition_of(row), now))

        return self._change(workflow, name, change)

    def _change(
        self, workflow: str, name: str, change: Callable[[Tx, ScheduleRow, int], ScheduleRow]
    ) -> ListedScheduleRow:
        now = self._services.clock()

        def work(tx: Tx) -> ListedScheduleRow:
            found, row = _require_schedule(tx, workflow, name)
            changed = change(tx, row, now)
            if changed != row:
                schedules_sql.change(tx, changed)
            return ListedScheduleRow(*changed, workflow_name=found.name)

        return self._services.database.write(work, lock_key=STARTS_LOCK)

    def trigger(
        self, request: schedules_pb2.TriggerScheduleRequest, caller: Principal
    ) -> Deferred[runs_pb2.StartRunResponse]:
        """Starts a run of a schedule now, even if the schedule is paused or has a run in flight.

        Raises, at once or with the answer:
            ApiError: `not_found`; otherwise as a start.
        """
        now = self._services.clock()
        _, row = self._services.database.snapshot(lambda tx: _require_schedule(tx, request.workflow, request.name))
        key = f"trigger\t{row.workflow_id}\t{request.name}\t{request.idempotency_key}"

        def admit(tx: Tx, run_id: str) -> None:
            current = sql.get(tx, row.schedule_id)
            if current is None:
                raise _no_schedule(tx, row.workflow_id, request.name)
            record_trigger(tx, current, run_id, now)

        start = parse_start(start_request(row, key), None, now)
        # Of the key alone: a changed schedule must not make a repeated call another request.
        fingerprint = hashlib.sha256(key.encode()).hexdigest()
        scheduled = ScheduledStart(request.name, None, admit)
        return self._starter.start_parsed(start._replace(fingerprint=fingerprint, scheduled=scheduled), caller)

    def plan(self, request: schedules_pb2.PlanStartRequest, caller: Principal) -> ListedScheduleRow:
        """Plans one start; its parameters are validated now, and again when it is due.

        Raises:
            ApiError: `invalid_request` for a time in the past or too far ahead, or for uploaded files; otherwise as a
                start.
        """
        now = self._services.clock()
        at = first_millisecond_from(request.at)
        given = request.start
        if given.upload_id:
            raise invalid("start.upload_id", "must be empty: uploaded files wait for an hour only")
        if not given.workflow_id:
            raise invalid("start.workflow_id", "is required")
        if given.HasField("pii_policy_override"):
            raise invalid("start.pii_policy_override", "must be absent: a planned start has the policy of its workflow")
        if not now < at <= now + LATEST_MS:
            raise invalid("at", f"must be in the future and before {to_text(now + LATEST_MS)}")
        start = parse_start(given, None, now)
        definition: JsonObject = {
            "parameters": start.parameters,
            "input_text": start.input_text,
            "client_reference": start.client_reference,
            "labels": dict(given.labels),
            "version": start.version,
        }
        row = ScheduleRow(
            schedule_id=new_id("sch"),
            workflow_id=given.workflow_id,
            name=None,
            definition=canonical(definition),
            created_at=now,
            created_by=caller.audit_name,
            next_at=at,
        )

        def work(tx: Tx) -> ListedScheduleRow:
            workflow = load_workflow(
                self._services.cache, tx, self._services.capabilities, given.workflow_id, start.version
            )
            if workflow is None:
                raise ApiError(errors_pb2.ERROR_REASON_WORKFLOW_NOT_FOUND)
            refusal = workflow.refusal()
            if refusal is not None:
                raise refusal
            validated = validate_inputs(start, workflow, self._services.capabilities.providers).parameters
            if isinstance(validated, ApiError):
                raise validated
            if sql.count_planned(tx, row.workflow_id) >= MOST_PLANNED:
                raise invalid("start.workflow_id", f"must be of a workflow with fewer than {MOST_PLANNED:,} of them")
            schedules_sql.add(tx, row)
            details: dict[str, object] = {"schedule": row.schedule_id, "at": to_text(at)}
            _audit(tx, now, caller.audit_name, "schedule.planned", row, details)
            return ListedScheduleRow(*row, workflow_name=workflow.name)

        return self._services.database.write(work)

    def cancel(self, schedule_id: str, actor: str) -> None:
        """Removes a planned start that is not due yet.

        Raises:
            ApiError: `not_found`.
        """
        now = self._services.clock()

        def work(tx: Tx) -> None:
            row = sql.get(tx, schedule_id)
            if row is None or row.name is not None or row.next_at is None:
                message = f"There is no planned start {schedule_id} that has not been decided."
                raise ApiError(errors_pb2.ERROR_REASON_NOT_FOUND, message)
            sql.remove(tx, schedule_id)
            _audit(tx, now, actor, "schedule.cancelled", row, {"schedule": schedule_id, "at": to_text(row.next_at)})

        self._services.database.write(work, lock_key=STARTS_LOCK)


def require_workflow(tx: Tx, workflow: str) -> WorkflowRow:
    """Returns a workflow by id or name.

    Raises:
        ApiError: `not_found`.
    """
    row = workflows_sql.find(tx, workflow)
    if row is None or row.deleted_at is not None:
        names = [each.name for each in workflows_sql.all_workflows(tx)]
        raise ApiError(errors_pb2.ERROR_REASON_NOT_FOUND, not_found_message("workflow", workflow, names))
    return row


def _require_schedule(tx: Tx, workflow: str, name: str) -> tuple[WorkflowRow, ScheduleRow]:
    found = require_workflow(tx, workflow)
    row = sql.named(tx, found.workflow_id, name)
    if row is None:
        raise _no_schedule(tx, found.workflow_id, name)
    return found, row


def _no_schedule(tx: Tx, workflow_id: str, name: str) -> ApiError:
    known = [each.name for each in schedules_sql.defined(tx, workflow_id) if each.name is not None]
    message = not_found_message("schedule of the workflow's active version", name, known)
    return ApiError(errors_pb2.ERROR_REASON_NOT_FOUND, message)


def _audit(tx: Tx, now: int, actor: str, action: str, row: ScheduleRow, details: dict[str, object]) -> None:
    audit.record(tx, at=now, actor=actor, action=action, target=row.workflow_id, details=details)
