"""RunListsService over gRPC."""

import grpc

from backend.clock import DAY_MS
from backend.rpc.interceptors import caller_of
from backend.runs.days import RunDays
from backend.runs.days_sql import DayRow
from backend.runs.figures import workflow_figures
from backend.runs.found_runs import FoundRuns
from backend.services import Services
from contract.times import set_milliseconds
from workflow_api.v1 import run_lists_pb2, run_lists_pb2_grpc


class RunListsServicer(run_lists_pb2_grpc.RunListsServiceServicer):
    """Finds runs for people, and counts them by the day."""

    def __init__(self, services: Services, days: RunDays) -> None:
        self._services = services
        self._found = FoundRuns(services)
        self._days = days

    def ListFoundRuns(
        self, request: run_lists_pb2.ListFoundRunsRequest, context: grpc.ServicerContext
    ) -> run_lists_pb2.ListFoundRunsResponse:
        """Returns the runs that a text and filters leave, newest first."""
        return self._found.page(request, caller_of(context).workflow_ids)

    def GetRunDays(
        self, request: run_lists_pb2.GetRunDaysRequest, context: grpc.ServicerContext
    ) -> run_lists_pb2.GetRunDaysResponse:
        """Returns the figures of the last days."""
        rows, counting = self._days.newest()
        return run_lists_pb2.GetRunDaysResponse(days=[_day(row) for row in rows], counting=counting)

    def GetWorkflowFigures(
        self, request: run_lists_pb2.GetWorkflowFiguresRequest, context: grpc.ServicerContext
    ) -> run_lists_pb2.WorkflowFigures:
        """Returns the figures of a workflow."""
        return workflow_figures(self._services, request.workflow_id)


def _day(row: DayRow) -> run_lists_pb2.RunDay:
    message = run_lists_pb2.RunDay(ended=row.ended, failed=row.failed, cancelled=row.cancelled)
    set_milliseconds(message.day, row.day * DAY_MS)
    if row.median_ms is not None and row.p95_ms is not None:
        set_milliseconds(message.median, row.median_ms)
        set_milliseconds(message.p95, row.p95_ms)
    return message
