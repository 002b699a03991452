"""Reads runs: the list, the detail, steps, approvals and events."""

from backend.entity_tags import entity_tag, matches
from backend.errors import ApiError
from backend.paging import Paging
from backend.runs import list_sql, messages, sql, starter_sql
from backend.runs.filters import read_filters
from backend.runs.run_lookup import find_logged, find_run
from backend.services import Services
from backend.storage.database import Tx
from workflow_api.v1 import errors_pb2, runs_pb2


class RunReads:
    """Reads of the runs of an API key, or of every run where the key id is None, for internal services."""

    def __init__(self, services: Services) -> None:
        self._database = services.database
        self._cursors = services.cursors

    def run(self, request: runs_pb2.GetRunRequest, key_id: str | None) -> runs_pb2.Run:
        """Returns one run in full, or its tag alone if the caller has that state; raises ApiError `run_not_found`.

        Internal services also learn who started it.
        """
        row = self._database.read(lambda tx: find_run(tx, request.run_id, key_id))
        tag = entity_tag(row)
        if matches(tag, request.if_none_match):
            return runs_pb2.Run(etag=tag, not_modified=True)
        run = messages.detail(row, tag)
        if key_id is None:
            by = self._database.read(lambda tx: starter_sql.started_by(tx, request.run_id))
            run.MergeFrom(runs_pb2.Run(started_by=by))
        return run

    def runs(self, request: runs_pb2.ListRunsRequest, key_id: str | None) -> runs_pb2.ListRunsResponse:
        """Returns a page of runs, newest first; raises ApiError `invalid_filter`, then `invalid_cursor`."""
        filters = read_filters(request)
        paging = Paging(self._cursors, request, key_id)
        after = None if paging.after is None else (int(paging.after[0]), str(paging.after[1]))
        rows = self._database.read(lambda tx: list_sql.page(tx, key_id, filters, after, paging.rows_to_read))
        shown, token = paging.cut(rows, lambda row: (row.created_at, row.run_id))
        return runs_pb2.ListRunsResponse(items=[messages.summary(row) for row in shown], next_page_token=token)

    def steps(self, request: runs_pb2.ListRunStepsRequest, key_id: str | None) -> runs_pb2.ListRunStepsResponse:
        """Returns the steps of a run; raises ApiError as `Paging`, then as `find_logged`."""
        run_id = request.run_id
        paging = Paging(self._cursors, request, key_id, of=run_id)

        def work(tx: Tx) -> runs_pb2.ListRunStepsResponse:
            find_logged(tx, run_id, key_id)
            shown, token = paging.page_of(sql.steps_of(tx, run_id), lambda row: (row.position,))
            return runs_pb2.ListRunStepsResponse(items=[messages.step(row) for row in shown], next_page_token=token)

        return self._database.snapshot(work)

    def approvals(
        self, request: runs_pb2.ListRunApprovalsRequest, key_id: str | None
    ) -> runs_pb2.ListRunApprovalsResponse:
        """Returns the approvals that a run waits for; raises ApiError as `Paging`, then as `find_logged`."""
        run_id = request.run_id
        paging = Paging(self._cursors, request, key_id, of=run_id)

        def work(tx: Tx) -> runs_pb2.ListRunApprovalsResponse:
            find_logged(tx, run_id, key_id)
            rows = sql.pending_approvals(tx, run_id)
            shown, token = paging.page_of(rows, lambda row: (row.requested_at, row.approval_id))
            return runs_pb2.ListRunApprovalsResponse(
                items=[messages.approval(row) for row in shown], next_page_token=token
            )

        return self._database.snapshot(work)

    def events(self, request: runs_pb2.ListRunEventsRequest, key_id: str | None) -> runs_pb2.ListRunEventsResponse:
        """Returns events of one segment; raises ApiError as `Paging`, then as `find_logged`, or `segment_not_found`."""
        paging = Paging(self._cursors, request, key_id, of=request.run_id)
        asked, after_seq = request.segment, request.after_seq
        if paging.after is not None:
            if asked or request.HasField("after_seq"):
                raise paging.refusal("must not be given together with segment or after_seq")
            asked, after_seq = str(paging.after[0]), int(paging.after[1])

        def work(tx: Tx) -> runs_pb2.ListRunEventsResponse:
            state = find_logged(tx, request.run_id, key_id)
            begun = sql.begun_segments(tx, request.run_id)
            segment_id = asked or (begun[-1].segment_id if begun else None)
            if asked and asked not in {segment.segment_id for segment in begun}:
                message = None if key_id else f"Run {request.run_id} has no segment {asked}."
                raise ApiError(errors_pb2.ERROR_REASON_SEGMENT_NOT_FOUND, message)
            rows = sql.events_after(tx, segment_id, after_seq, paging.rows_to_read) if segment_id else []
            shown, token = paging.cut(rows, lambda row: (row.segment_id, row.seq))
            decided = key_id is None and any(row.type == messages.DECIDED_EVENT for row in shown)
            deciders = sql.deciders(tx, request.run_id) if decided else {}
            return runs_pb2.ListRunEventsResponse(
                run_id=request.run_id,
                segment_id=segment_id,
                # The public API never names people.
                events=[messages.event(row) if key_id else messages.event_for_people(row, deciders) for row in shown],
                next_after_seq=shown[-1].seq if shown else after_seq,
                segments=[messages.segment(segment) for segment in begun],
                next_page_token=token,
                run_status=messages.run_status(state.status),
            )

        return self._database.snapshot(work)
