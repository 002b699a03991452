"""RunsService and RunListsService over gRPC: start, read, cancel, erase and find runs."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import grpc

from backend.common.clock import DAY_MS
from backend.common.errors import ApiError, invalid
from backend.common.principal import Principal
from backend.common.states import RUN_TERMINAL, RunStatus
from backend.common.waits import deferring, pausing
from backend.rpc.answer_cache import Dependence, cacheable
from backend.rpc.callers import principal_of
from backend.services.audit import sql as audit
from backend.services.dependencies import Services
from backend.services.run_changes import RunChanges
from backend.services.runs import lifecycle, messages
from backend.services.runs.approvals import Approvals
from backend.services.runs.erasure import erase_run
from backend.services.runs.figures import RunDays, newest_failures, workflow_figures
from backend.services.runs.figures_sql import DayRow
from backend.services.runs.found_runs import RunSearch, child_runs
from backend.services.runs.reads import RunReads, find_state
from backend.services.runs.resume.service import RunResumer
from backend.services.runs.runtime_port import Runtime
from backend.services.runs.start.service import RunStarter
from backend.services.runs.watches import RunWatches
from backend.services.uploads.staging import Uploads
from backend.storage.database import Tx, run_of
from contract.fields import given_or_default
from contract.times import set_milliseconds, to_timestamp
from workflow_api.v1 import errors_pb2, run_lists_pb2, run_lists_pb2_grpc, runs_pb2, runs_pb2_grpc


@dataclass(frozen=True, slots=True)
class Cancellation:
    """The run's status after the call, and the time of the first request to cancel it."""

    status: str
    requested_at: int


def cancel_run(
    services: Services, runtime: Runtime, run_id: str, caller: Principal, reason: str | None
) -> Cancellation:
    """Cancels a run: a queued or parked run at once, a running one through the runtime.

    Raises:
        ApiError: `run_not_found`, or `already_terminal`.
    """
    at = services.clock()

    def work(tx: Tx) -> Cancellation:
        state = find_state(tx, run_id, caller.key_id)
        if state.status in RUN_TERMINAL:
            raise ApiError(errors_pb2.ERROR_REASON_ALREADY_TERMINAL)
        tx.changes_run(run_id, state.key_id)
        status = lifecycle.cancel_run(tx, run_id, state.status, at, reason)
        # The reason is the caller's text: only the run's row stores it, so that an erasure clears it.
        audit.record(tx, at=at, actor=caller.audit_name, action="run.cancel_requested", target=run_id)
        if status == RunStatus.CANCELLED:
            return Cancellation(status, at)
        tx.after_commit(runtime.wake if status == RunStatus.WAITING else lambda: runtime.cancel(run_id))
        return Cancellation(status, at if state.cancel_requested_at is None else state.cancel_requested_at)

    return services.database.write(work, lock_key=run_of(run_id))


_OF_RUN: Final = Dependence(of_run=True)
_OF_KEY: Final = Dependence(of_run=False)


class RunsServicer(runs_pb2_grpc.RunsServiceServicer):
    """Starts, shows, cancels and erases runs, and records decisions on approvals."""

    def __init__(self, services: Services, runtime: Runtime, changes: RunChanges, uploads: Uploads) -> None:
        self._services = services
        self._runtime = runtime
        self._starter = RunStarter(services, runtime)
        self._reads = RunReads(services)
        self._watches = RunWatches(self._reads, changes)
        self._approvals = Approvals(services, runtime)
        self._resumer = RunResumer(services, self._starter, uploads)

    def _fits_event_loop(self, request: runs_pb2.StartRunRequest) -> bool:
        return self._starter.fits_event_loop(request)

    @deferring(quick=_fits_event_loop)
    def StartRun(self, request: runs_pb2.StartRunRequest, context: grpc.ServicerContext) -> Any:
        """Starts a run, or returns the run of an earlier start with this idempotency key."""
        return self._starter.start(request, principal_of(context))

    @cacheable(_OF_KEY)
    def ListRuns(self, request: runs_pb2.ListRunsRequest, context: grpc.ServicerContext) -> runs_pb2.ListRunsResponse:
        """Returns the caller's runs, newest first."""
        return self._reads.runs(request, principal_of(context))

    @cacheable(_OF_RUN)
    def GetRun(self, request: runs_pb2.GetRunRequest, context: grpc.ServicerContext) -> runs_pb2.Run:
        """Returns one run in full, or its tag alone."""
        _refuse_to_wait(request, "WatchRun")
        return self._reads.run(request, principal_of(context))

    def FindChangedRuns(
        self, request: runs_pb2.FindChangedRunsRequest, context: grpc.ServicerContext
    ) -> runs_pb2.FindChangedRunsResponse:
        """Returns the ids of runs whose entity tag differs from the tag that the edge sent."""
        return self._reads.changed(request)

    @pausing
    def WatchRun(self, request: runs_pb2.WatchRunRequest, context: grpc.ServicerContext) -> Iterator[Any]:
        """Yields a run in full, now and after each change of its status or counts."""
        yield from self._watches.run(request, principal_of(context), context.is_active)

    @pausing
    def WatchRunEvents(self, request: runs_pb2.WatchRunEventsRequest, context: grpc.ServicerContext) -> Iterator[Any]:
        """Yields the events of a run over all of its segments."""
        yield from self._watches.events(request, principal_of(context).key_id, context.is_active)

    @cacheable(_OF_RUN)
    def ListRunSteps(
        self, request: runs_pb2.ListRunStepsRequest, context: grpc.ServicerContext
    ) -> runs_pb2.ListRunStepsResponse:
        """Returns the state of every step."""
        return self._reads.steps(request, principal_of(context).key_id)

    @cacheable(_OF_RUN)
    def ListRunEvents(
        self, request: runs_pb2.ListRunEventsRequest, context: grpc.ServicerContext
    ) -> runs_pb2.ListRunEventsResponse:
        """Returns events of one segment."""
        _refuse_to_wait(request, "WatchRunEvents")
        return self._reads.events(request, principal_of(context).key_id)

    @cacheable(_OF_RUN)
    def ListRunApprovals(
        self, request: runs_pb2.ListRunApprovalsRequest, context: grpc.ServicerContext
    ) -> runs_pb2.ListRunApprovalsResponse:
        """Returns the approvals that the run waits for."""
        return self._reads.approvals(request, principal_of(context).key_id)

    def ListPendingApprovals(
        self, request: runs_pb2.ListPendingApprovalsRequest, context: grpc.ServicerContext
    ) -> runs_pb2.ListPendingApprovalsResponse:
        """Returns pending approvals, oldest first."""
        return self._approvals.pending(request, principal_of(context))

    def DecideApproval(
        self, request: runs_pb2.DecideApprovalRequest, context: grpc.ServicerContext
    ) -> runs_pb2.DecideApprovalResponse:
        """Records a decision and queues the segment that continues the run."""
        return self._approvals.decide(request, principal_of(context))

    def ResumeRun(
        self, request: runs_pb2.ResumeRunRequest, context: grpc.ServicerContext
    ) -> runs_pb2.ResumeRunResponse:
        """Starts a run that resumes a failed or cancelled one; with `dry_run`, answers which steps it would reuse."""
        return self._resumer.resume(request, principal_of(context))

    def CancelRun(
        self, request: runs_pb2.CancelRunRequest, context: grpc.ServicerContext
    ) -> runs_pb2.CancelRunResponse:
        """Cancels a run: at once if none of its segments executes, else through the runtime."""
        reason = request.reason if request.HasField("reason") else None
        outcome = cancel_run(self._services, self._runtime, request.run_id, principal_of(context), reason)
        return runs_pb2.CancelRunResponse(
            run_id=request.run_id,
            status=messages.run_status(outcome.status),
            cancel_requested_at=to_timestamp(outcome.requested_at),
        )

    def EraseRunData(
        self, request: runs_pb2.EraseRunDataRequest, context: grpc.ServicerContext
    ) -> runs_pb2.EraseRunDataResponse:
        """Erases the data of a finished run, and starts the removal of its objects."""
        reason = request.reason if request.HasField("reason") else None
        purged_at = erase_run(self._services, self._runtime, request.run_id, principal_of(context), reason)
        return runs_pb2.EraseRunDataResponse(run_id=request.run_id, data_purged_at=to_timestamp(purged_at))

    def RunUpkeep(
        self, request: runs_pb2.RunUpkeepRequest, context: grpc.ServicerContext
    ) -> runs_pb2.RunUpkeepResponse:
        """Erases and deletes expired data now."""
        done = dict(self._runtime.upkeep())
        more = bool(done.pop("more"))
        return runs_pb2.RunUpkeepResponse(**done, more=more)


def _refuse_to_wait(request: runs_pb2.GetRunRequest | runs_pb2.ListRunEventsRequest, instead: str) -> None:
    """Refuses a wait, which would occupy a thread; the edge waits for its callers by streams."""
    if request.wait.seconds:
        raise invalid("wait_seconds", f"must be 0 over gRPC, where {instead} waits")


class RunListsServicer(run_lists_pb2_grpc.RunListsServiceServicer):
    """Finds runs for people, and counts them by the day."""

    def __init__(self, services: Services, days: RunDays) -> None:
        self._services = services
        self._search = RunSearch(services)
        self._days = days

    def ListFoundRuns(
        self, request: run_lists_pb2.ListFoundRunsRequest, context: grpc.ServicerContext
    ) -> run_lists_pb2.ListFoundRunsResponse:
        """Returns the runs that match a text and filters, newest first."""
        return self._search.page(request, principal_of(context).workflow_ids)

    def ListChildRuns(
        self, request: run_lists_pb2.ListChildRunsRequest, context: grpc.ServicerContext
    ) -> run_lists_pb2.ListChildRunsResponse:
        """Returns the child runs of a run."""
        return child_runs(self._services, request, principal_of(context).workflow_ids)

    def GetRunDays(
        self, request: run_lists_pb2.GetRunDaysRequest, context: grpc.ServicerContext
    ) -> run_lists_pb2.GetRunDaysResponse:
        """Returns the figures of the last 30 days."""
        rows, counting = self._days.newest()
        return run_lists_pb2.GetRunDaysResponse(days=[_day(row) for row in rows], counting=counting)

    def GetNewestFailures(
        self, request: run_lists_pb2.GetNewestFailuresRequest, context: grpc.ServicerContext
    ) -> run_lists_pb2.NewestFailures:
        """Returns the newest failed runs of yesterday and today."""
        return newest_failures(self._services, given_or_default(request, "limit"), principal_of(context).workflow_ids)

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
