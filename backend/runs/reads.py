"""Reads runs: the list, the detail, steps, approvals and events."""

from typing import Final

from backend.errors import ApiError
from backend.runs import list_sql, messages, sql
from backend.runs.filters import read_filters
from backend.runs.run_lookup import find_logged, find_run
from backend.services import Services
from backend.storage.database import Tx
from contract.defaults import given_or_default
from workflow_api.v1 import errors_pb2, runs_pb2

_ROUTE: Final = "ListRuns"


class RunReads:
    """Reads of the runs of an API key, or of every run where the key id is None, for internal services."""

    def __init__(self, services: Services) -> None:
        self._database = services.database
        self._cursors = services.cursors

    def run(self, run_id: str, key_id: str | None) -> runs_pb2.Run:
        """Returns one run in full; raises ApiError `run_not_found`."""
        return messages.detail(self._database.read(lambda tx: find_run(tx, run_id, key_id)))

    def runs(self, request: runs_pb2.ListRunsRequest, key_id: str | None) -> runs_pb2.ListRunsResponse:
        """Returns a page of runs, newest first; raises ApiError `invalid_filter`, then `invalid_cursor`."""
        filters = read_filters(request)
        after = self._position(request.page_token, key_id) if request.page_token else None
        limit = given_or_default(request, "page_size")
        rows = self._database.read(lambda tx: list_sql.page(tx, key_id, filters, after, limit + 1))
        shown = rows[:limit]
        more = len(rows) > limit
        cursor = self._cursors.issue(_ROUTE, key_id, (shown[-1].created_at, shown[-1].run_id)) if more else None
        return runs_pb2.ListRunsResponse(items=[messages.summary(row) for row in shown], next_page_token=cursor)

    def steps(self, run_id: str, key_id: str | None) -> runs_pb2.ListRunStepsResponse:
        """Returns the steps of a run; raises ApiError as `find_logged`."""

        def work(tx: Tx) -> runs_pb2.ListRunStepsResponse:
            find_logged(tx, run_id, key_id)
            return runs_pb2.ListRunStepsResponse(items=[messages.step(row) for row in sql.steps_of(tx, run_id)])

        return self._database.snapshot(work)

    def approvals(self, run_id: str, key_id: str | None) -> runs_pb2.ListRunApprovalsResponse:
        """Returns the approvals that a run waits for; raises ApiError as `find_logged`."""

        def work(tx: Tx) -> runs_pb2.ListRunApprovalsResponse:
            find_logged(tx, run_id, key_id)
            rows = sql.pending_approvals(tx, run_id)
            return runs_pb2.ListRunApprovalsResponse(items=[messages.approval(row) for row in rows])

        return self._database.snapshot(work)

    def events(self, request: runs_pb2.ListRunEventsRequest, key_id: str | None) -> runs_pb2.ListRunEventsResponse:
        """Returns events of one segment; raises ApiError as `find_logged`, or `segment_not_found`."""
        limit = given_or_default(request, "page_size")

        def work(tx: Tx) -> runs_pb2.ListRunEventsResponse:
            find_logged(tx, request.run_id, key_id)
            begun = sql.begun_segments(tx, request.run_id)
            segment_id = request.segment or (begun[-1].segment_id if begun else None)
            if request.segment and request.segment not in {segment.segment_id for segment in begun}:
                raise ApiError(errors_pb2.ERROR_REASON_SEGMENT_NOT_FOUND)
            rows = sql.events_after(tx, segment_id, request.after_seq, limit) if segment_id else []
            return runs_pb2.ListRunEventsResponse(
                run_id=request.run_id,
                segment_id=segment_id,
                events=[messages.event(row) for row in rows],
                next_after_seq=rows[-1].seq if rows else request.after_seq,
                segments=[messages.segment(segment) for segment in begun],
            )

        return self._database.snapshot(work)

    def _position(self, cursor: str, key_id: str | None) -> tuple[int, str]:
        created_at, run_id = self._cursors.read(_ROUTE, key_id, cursor)
        return int(created_at), str(run_id)
