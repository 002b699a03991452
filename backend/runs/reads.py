"""Reads runs: the list, the detail, steps, approvals and events."""

from collections.abc import Sequence
from typing import Final

from google.protobuf.message import Message

from backend.caller import Caller
from backend.entity_tags import entity_tag, matches
from backend.errors import ApiError
from backend.paging import Paging
from backend.runs import list_sql, messages, sql, starter_sql
from backend.runs.event_pages import EventPages
from backend.runs.filters import read_filters
from backend.runs.run_lookup import find_logged, find_run
from backend.services import Services
from backend.storage.database import Tx
from contract.recent_values import remembering
from workflow_api.v1 import errors_pb2, runs_pb2
from workflow_api.v1.pii_policy_pb2 import PII_MODE_REDACT

_MOST_BYTES: Final = 16_000_000
_INPUTS: Final = ("parameters", "input_text", "inputs_manifest")


class RunReads:
    """Reads of the runs of an API key, or of every run where the key id is None, for internal services."""

    def __init__(self, services: Services) -> None:
        self._database = services.database
        self._cursors = services.cursors
        # Making a message of a row costs more than reading the row, and most rows come again unchanged.
        self._detail = remembering(messages.detail, _size, _MOST_BYTES)
        self._summary = remembering(messages.summary, _size, _MOST_BYTES)
        self._events = EventPages()

    def run(self, request: runs_pb2.GetRunRequest, caller: Caller) -> runs_pb2.Run:
        """Returns one run in full, or its tag alone if the caller has that state; raises ApiError `run_not_found`.

        Internal services also learn who started it. A person gets no inputs where the policy redacts:
        `PreviewsService.GetRunInputs` has them swept.
        """
        key_id = caller.key_id
        row = self._database.read(lambda tx: find_run(tx, request.run_id, key_id))
        run = self._detail(row)
        if matches(run.etag, request.if_none_match):
            return runs_pb2.Run(etag=run.etag, not_modified=True)
        if key_id is None:
            by = self._database.read(lambda tx: starter_sql.started_by(tx, request.run_id))
            found, run = run, runs_pb2.Run(started_by=by)
            run.MergeFrom(found)
        if caller.person is not None and run.pii_policy.mode == PII_MODE_REDACT:
            # Others share what is remembered of a run.
            found, run = run, runs_pb2.Run()
            run.CopyFrom(found)
            for name in _INPUTS:
                run.ClearField(name)
        return run

    def runs(self, request: runs_pb2.ListRunsRequest, caller: Caller) -> runs_pb2.ListRunsResponse:
        """Returns a page of runs, newest first; raises ApiError `invalid_filter`, then `invalid_cursor`."""
        key_id = caller.key_id
        filters = read_filters(request).within(caller.workflow_ids)
        paging = Paging(self._cursors, request, key_id)
        after = None if paging.after is None else (int(paging.after[0]), str(paging.after[1]))
        rows = self._database.read(lambda tx: list_sql.newest(tx, key_id, filters, after, paging.rows_to_read))
        shown, token = paging.cut(rows, lambda row: (row.created_at, row.run_id))
        return runs_pb2.ListRunsResponse(items=list(map(self._summary, shown)), next_page_token=token)

    def changed(self, request: runs_pb2.FindChangedRunsRequest) -> runs_pb2.FindChangedRunsResponse:
        """Returns which runs have another tag than the caller knows, or are gone."""
        rows = self._database.read(lambda tx: sql.runs_in_full(tx, [run.run_id for run in request.runs]))
        etags = {row.run_id: entity_tag(row) for row in rows}
        return runs_pb2.FindChangedRunsResponse(
            run_ids=[run.run_id for run in request.runs if etags.get(run.run_id) != run.etag]
        )

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
            segment = next((each for each in reversed(begun) if asked in {"", each.segment_id}), None)
            if asked and segment is None:
                message = None if key_id else f"Run {request.run_id} has no segment {asked}."
                raise ApiError(errors_pb2.ERROR_REASON_SEGMENT_NOT_FOUND, message)
            events: Sequence[runs_pb2.Event] = ()
            if segment is not None and key_id:
                events = self._events.read(tx, segment, after_seq, paging.rows_to_read)
            elif segment is not None:
                events = self._events.read_for_people(tx, request, segment, after_seq, paging.rows_to_read)
            segment_id = segment and segment.segment_id
            shown, token = paging.cut(events, lambda event: (segment_id or "", event.seq))
            return runs_pb2.ListRunEventsResponse(
                run_id=request.run_id,
                segment_id=segment_id,
                events=shown,
                next_after_seq=shown[-1].seq if shown else after_seq,
                segments=[messages.segment(segment) for segment in begun],
                next_page_token=token,
                run_status=messages.run_status(state.status),
            )

        return self._database.snapshot(work)


def _size(message: Message) -> int:
    # The message, and the row of about the same text.
    return 1_024 + 2 * message.ByteSize()
