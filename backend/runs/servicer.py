"""RunsService over gRPC."""

from collections.abc import Iterator
from typing import Any, Final

import grpc

from backend.answer_cache import Dependence, cacheable
from backend.deferred import deferring
from backend.errors import invalid
from backend.pauses import pausing
from backend.rpc.interceptors import caller_of
from backend.run_changes import RunChanges
from backend.runs import messages
from backend.runs.approvals import Approvals
from backend.runs.cancel import cancel_run
from backend.runs.erase import erase_run
from backend.runs.reads import RunReads
from backend.runs.runtime_port import Runtime
from backend.runs.start.service import Starts
from backend.runs.watches import RunWatches
from backend.services import Services
from contract.times import to_timestamp
from workflow_api.v1 import runs_pb2, runs_pb2_grpc

_OF_RUN: Final = Dependence(of_run=True)
_OF_KEY: Final = Dependence(of_run=False)


class RunsServicer(runs_pb2_grpc.RunsServiceServicer):
    """Starts, shows, cancels and erases runs, and records decisions on approvals."""

    def __init__(self, services: Services, runtime: Runtime, changes: RunChanges) -> None:
        self._services = services
        self._runtime = runtime
        self._starts = Starts(services, runtime)
        self._reads = RunReads(services)
        self._watches = RunWatches(self._reads, changes)
        self._approvals = Approvals(services, runtime)

    def _starts_quickly(self, request: runs_pb2.StartRunRequest) -> bool:
        return self._starts.begins_quickly(request)

    @deferring(quick=_starts_quickly)
    def StartRun(self, request: runs_pb2.StartRunRequest, context: grpc.ServicerContext) -> Any:
        """Starts a run, or answers the one that the same start made."""
        return self._starts.start(request, caller_of(context))

    @cacheable(_OF_KEY)
    def ListRuns(self, request: runs_pb2.ListRunsRequest, context: grpc.ServicerContext) -> runs_pb2.ListRunsResponse:
        """Returns the caller's runs, newest first."""
        return self._reads.runs(request, caller_of(context))

    @cacheable(_OF_RUN)
    def GetRun(self, request: runs_pb2.GetRunRequest, context: grpc.ServicerContext) -> runs_pb2.Run:
        """Returns one run in full, or its tag alone."""
        _refuse_to_wait(request, "WatchRun")
        return self._reads.run(request, caller_of(context))

    def FindChangedRuns(
        self, request: runs_pb2.FindChangedRunsRequest, context: grpc.ServicerContext
    ) -> runs_pb2.FindChangedRunsResponse:
        """Returns which runs have another entity tag than the edge knows."""
        return self._reads.changed(request)

    @pausing
    def WatchRun(self, request: runs_pb2.WatchRunRequest, context: grpc.ServicerContext) -> Iterator[Any]:
        """Yields one run in full, now and after each change of its status or its counts."""
        yield from self._watches.run(request, caller_of(context), context.is_active)

    @pausing
    def WatchRunEvents(self, request: runs_pb2.WatchRunEventsRequest, context: grpc.ServicerContext) -> Iterator[Any]:
        """Yields the events of a run over all of its segments."""
        yield from self._watches.events(request, caller_of(context).key_id, context.is_active)

    @cacheable(_OF_RUN)
    def ListRunSteps(
        self, request: runs_pb2.ListRunStepsRequest, context: grpc.ServicerContext
    ) -> runs_pb2.ListRunStepsResponse:
        """Returns the state of every step."""
        return self._reads.steps(request, caller_of(context).key_id)

    @cacheable(_OF_RUN)
    def ListRunEvents(
        self, request: runs_pb2.ListRunEventsRequest, context: grpc.ServicerContext
    ) -> runs_pb2.ListRunEventsResponse:
        """Returns events of one segment."""
        _refuse_to_wait(request, "WatchRunEvents")
        return self._reads.events(request, caller_of(context).key_id)

    @cacheable(_OF_RUN)
    def ListRunApprovals(
        self, request: runs_pb2.ListRunApprovalsRequest, context: grpc.ServicerContext
    ) -> runs_pb2.ListRunApprovalsResponse:
        """Returns the approvals that the run waits for."""
        return self._reads.approvals(request, caller_of(context).key_id)

    def ListPendingApprovals(
        self, request: runs_pb2.ListPendingApprovalsRequest, context: grpc.ServicerContext
    ) -> runs_pb2.ListPendingApprovalsResponse:
        """Returns pending approvals, oldest first."""
        return self._approvals.pending(request, caller_of(context).workflow_ids)

    def DecideApproval(
        self, request: runs_pb2.DecideApprovalRequest, context: grpc.ServicerContext
    ) -> runs_pb2.DecideApprovalResponse:
        """Records a decision and queues the segment that continues the run."""
        return self._approvals.decide(request, caller_of(context))

    def CancelRun(
        self, request: runs_pb2.CancelRunRequest, context: grpc.ServicerContext
    ) -> runs_pb2.CancelRunResponse:
        """Cancels a run directly if no segment of it runs, otherwise through the runtime."""
        reason = request.reason if request.HasField("reason") else None
        outcome = cancel_run(self._services, self._runtime, request.run_id, caller_of(context), reason)
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
        purged_at = erase_run(self._services, self._runtime, request.run_id, caller_of(context), reason)
        return runs_pb2.EraseRunDataResponse(run_id=request.run_id, data_purged_at=to_timestamp(purged_at))

    def RunUpkeep(
        self, request: runs_pb2.RunUpkeepRequest, context: grpc.ServicerContext
    ) -> runs_pb2.RunUpkeepResponse:
        """Erases and deletes expired data now."""
        done = dict(self._runtime.upkeep())
        more = bool(done.pop("more"))
        return runs_pb2.RunUpkeepResponse(**done, more=more)


def _refuse_to_wait(request: runs_pb2.GetRunRequest | runs_pb2.ListRunEventsRequest, instead: str) -> None:
    """A method that waited would hold a thread; edges do it for their callers."""
    if request.wait.seconds:
        raise invalid("wait_seconds", f"must be 0 over gRPC, where {instead} waits")
