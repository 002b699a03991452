"""SchedulesService over gRPC: lists schedules, and changes them for people."""

from collections.abc import Callable
from concurrent.futures import wait
from typing import Final

import grpc

from backend.common.paging import Paging
from backend.rpc.callers import principal_of
from backend.services.dependencies import Services
from backend.services.runs.start.service import RunStarter
from backend.services.schedules import sql
from backend.services.schedules.administration import ScheduleAdministration, require_workflow
from backend.services.schedules.messages import schedule_message
from backend.services.schedules.sql import ListedScheduleRow
from backend.storage.database import Tx
from workflow_api.v1 import runs_pb2, schedules_pb2, schedules_pb2_grpc

_FIRST: Final = ("", "", "")

_Rows = tuple[list[ListedScheduleRow], Callable[[ListedScheduleRow], tuple[str | int, ...]]]
"""Rows of a page, and what returns the position of a row."""


def _by_name(tx: Tx, workflow_id: str | None, paging: Paging) -> _Rows:
    workflow, name, schedule_id = map(str, paging.after or _FIRST)
    rows = sql.listed(tx, workflow_id, (workflow, name, schedule_id), paging.rows_to_read)
    return rows, lambda row: (row.workflow_name, row.name or "", row.schedule_id)


def _by_time(tx: Tx, workflow_id: str | None, paging: Paging) -> _Rows:
    next_at, schedule_id = paging.after or (0, "")
    rows = sql.listed_by_next_time(tx, workflow_id, (int(next_at), str(schedule_id)), paging.rows_to_read)
    return rows, lambda row: (row.next_at or 0, row.schedule_id)


class SchedulesServicer(schedules_pb2_grpc.SchedulesServiceServicer):
    """Shows schedules and planned starts, pauses, resumes and triggers them."""

    def __init__(self, services: Services, starter: RunStarter) -> None:
        self._services = services
        self._administration = ScheduleAdministration(services, starter)

    def ListSchedules(
        self, request: schedules_pb2.ListSchedulesRequest, context: grpc.ServicerContext
    ) -> schedules_pb2.ListSchedulesResponse:
        """Returns schedules and planned starts, by the names of workflow and schedule or by their next times."""
        by_time = request.by_next_time
        paging = Paging(self._services.cursors, request, of=f"{request.workflow}/next" if by_time else request.workflow)

        def work(tx: Tx) -> schedules_pb2.ListSchedulesResponse:
            only = require_workflow(tx, request.workflow).workflow_id if request.HasField("workflow") else None
            shown, token = paging.cut(*(_by_time if by_time else _by_name)(tx, only, paging))
            return schedules_pb2.ListSchedulesResponse(
                items=[schedule_message(row) for row in shown], next_page_token=token
            )

        return self._services.database.snapshot(work)

    def PauseSchedule(
        self, request: schedules_pb2.PauseScheduleRequest, context: grpc.ServicerContext
    ) -> schedules_pb2.Schedule:
        """Pauses a schedule."""
        actor = principal_of(context).audit_name
        return schedule_message(self._administration.pause(request.workflow, request.name, actor))

    def ResumeSchedule(
        self, request: schedules_pb2.ResumeScheduleRequest, context: grpc.ServicerContext
    ) -> schedules_pb2.Schedule:
        """Ends the pause of a schedule."""
        actor = principal_of(context).audit_name
        return schedule_message(self._administration.resume(request.workflow, request.name, actor))

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
        return schedule_message(self._administration.plan(request, principal_of(context)))

    def CancelPlannedStart(
        self, request: schedules_pb2.CancelPlannedStartRequest, context: grpc.ServicerContext
    ) -> schedules_pb2.CancelPlannedStartResponse:
        """Cancels a planned start."""
        self._administration.cancel(request.schedule_id, principal_of(context).audit_name)
        return schedules_pb2.CancelPlannedStartResponse()
