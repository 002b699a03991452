"""SchedulesService over gRPC: lists schedules, and changes them for people."""

from concurrent.futures import wait
from itertools import islice
from typing import Final

import grpc
from google.protobuf.timestamp_pb2 import Timestamp

from backend.common.paging import Paging
from backend.rpc.callers import principal_of
from backend.services.dependencies import Services
from backend.services.runs.start.service import RunStarter
from backend.services.schedules import sql
from backend.services.schedules.administration import ScheduleAdministration, require_workflow
from backend.services.schedules.sql import ListedScheduleRow
from backend.services.workflows.cron import due_times
from backend.services.workflows.schedule_outcomes import Outcome, definition_of
from backend.storage.database import Tx
from backend.storage.tables.schedules import ScheduleRow
from contract.times import to_timestamp
from workflow_api.v1 import runs_pb2, schedules_pb2, schedules_pb2_grpc

_FIRST: Final = ("", "", "")
_NEXT_TIMES: Final = 5

_OUTCOMES: Final = {
    Outcome.STARTED: schedules_pb2.SCHEDULE_OUTCOME_STARTED,
    Outcome.SKIPPED: schedules_pb2.SCHEDULE_OUTCOME_SKIPPED,
    Outcome.QUEUED: schedules_pb2.SCHEDULE_OUTCOME_QUEUED,
    Outcome.FAILED: schedules_pb2.SCHEDULE_OUTCOME_FAILED,
}


class SchedulesServicer(schedules_pb2_grpc.SchedulesServiceServicer):
    """Shows schedules and planned starts, pauses, resumes and triggers them."""

    def __init__(self, services: Services, starter: RunStarter) -> None:
        self._services = services
        self._administration = ScheduleAdministration(services, starter)

    def ListSchedules(
        self, request: schedules_pb2.ListSchedulesRequest, context: grpc.ServicerContext
    ) -> schedules_pb2.ListSchedulesResponse:
        """Returns schedules and planned starts, ordered by the names of workflow and schedule."""
        paging = Paging(self._services.cursors, request, of=request.workflow)
        workflow, name, schedule_id = map(str, paging.after or _FIRST)

        def work(tx: Tx) -> schedules_pb2.ListSchedulesResponse:
            only = require_workflow(tx, request.workflow).workflow_id if request.HasField("workflow") else None
            rows = sql.listed(tx, only, (workflow, name, schedule_id), paging.rows_to_read)
            shown, token = paging.cut(rows, lambda row: (row.workflow_name, row.name or "", row.schedule_id))
            return schedules_pb2.ListSchedulesResponse(items=[_message(row) for row in shown], next_page_token=token)

        return self._services.database.snapshot(work)

    def PauseSchedule(
        self, request: schedules_pb2.PauseScheduleRequest, context: grpc.ServicerContext
    ) -> schedules_pb2.Schedule:
        """Pauses a schedule."""
        actor = principal_of(context).audit_name
        return _message(self._administration.pause(request.workflow, request.name, actor))

    def ResumeSchedule(
        self, request: schedules_pb2.ResumeScheduleRequest, context: grpc.ServicerContext
    ) -> schedules_pb2.Schedule:
        """Ends the pause of a schedule."""
        actor = principal_of(context).audit_name
        return _message(self._administration.resume(request.workflow, request.name, actor))

    def TriggerSchedule(
        self, request: schedules_pb2.TriggerScheduleRequest, context: grpc.ServicerContext
    ) -> runs_pb2.StartRunResponse:
        """Starts a run of a schedule now."""
        deferred = self._administration.trigger(request, principal_of(context))
        wait([deferred.change])
        return deferred.answer(deferred.change)

    def PlanStart(
        self, request: schedules_pb2.PlanStartRequest, context: grpc.ServicerContext
    ) -> schedules_pb2.Schedule:
        """Plans one start."""
        return _message(self._administration.plan(request, principal_of(context)))

    def CancelPlannedStart(
        self, request: schedules_pb2.CancelPlannedStartRequest, context: grpc.ServicerContext
    ) -> schedules_pb2.CancelPlannedStartResponse:
        """Cancels a planned start."""
        self._administration.cancel(request.schedule_id, principal_of(context).audit_name)
        return schedules_pb2.CancelPlannedStartResponse()


def _message(listed: ListedScheduleRow) -> schedules_pb2.Schedule:
    """Returns a schedule or planned start for people, without the inputs of a planned start."""
    row = listed.row
    definition = {} if row.name is None else definition_of(row)
    return schedules_pb2.Schedule(
        schedule_id=row.schedule_id,
        workflow_id=row.workflow_id,
        workflow_name=listed.workflow_name,
        name=row.name or "",
        cron=definition.get("cron", ""),
        timezone=definition.get("timezone", ""),
        overlap=definition.get("overlap", ""),
        catch_up=definition.get("catch_up", ""),
        paused=bool(row.paused),
        next_times=[to_timestamp(at) for at in _next_times(row)],
        waiting=_time(row.waiting_at),
        last=_decision(row),
        planned_by=row.created_by,
    )


def _next_times(row: ScheduleRow) -> list[int]:
    if row.next_at is None:
        return []
    if row.name is None:
        return [row.next_at]
    definition = definition_of(row)
    later = due_times(definition["cron"], definition["timezone"], row.next_at)
    return [row.next_at, *islice(later, _NEXT_TIMES - 1)]


def _decision(row: ScheduleRow) -> schedules_pb2.ScheduleDecision | None:
    if row.last_outcome is None or row.last_at is None:
        return None
    return schedules_pb2.ScheduleDecision(
        outcome=_OUTCOMES[Outcome(row.last_outcome)],
        due_at=_time(row.last_due_at),
        decided_at=to_timestamp(row.last_at),
        run_id=row.last_run_id,
        reason=row.last_reason,
    )


def _time(milliseconds: int | None) -> Timestamp | None:
    return None if milliseconds is None else to_timestamp(milliseconds)
