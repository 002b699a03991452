"""Reads of runs for the RPCs: one run, lists of runs, steps and approvals, and pages of events."""

from collections.abc import Sequence
from typing import Final, TypeVar

from backend.common.errors import ApiError
from backend.common.paging import Paging
from backend.common.principal import Principal
from backend.common.states import RUN_TERMINAL
from backend.services.dependencies import Services
from backend.services.runs import list_sql, messages, sql
from backend.services.runs.rules import read_filters
from backend.storage.database import Tx
from backend.storage.tables.runs import RunRow
from backend.storage.tables.segments import SegmentRow
from workflow_api.v1 import errors_pb2, runs_pb2
from workflow_api.v1.pii_policy_pb2 import PII_MODE_REDACT

T = TypeVar("T")


def find_run(tx: Tx, run_id: str, key_id: str | None) -> RunRow:
    """Returns a run in full.

    Raises:
        ApiError: `run_not_found`, both for a run that does not exist and for one of another key.
    """
    return _found(sql.run(tx, run_id, key_id), run_id, key_id)


def find_state(tx: Tx, run_id: str, key_id: str | None) -> sql.RunStateRow:
    """Returns the state of a run; raises as `find_run`."""
    return _found(sql.run_state(tx, run_id, key_id), run_id, key_id)


def find_logged(tx: Tx, run_id: str, key_id: str | None) -> sql.RunStateRow:
    """Returns the state of a run whose steps and events still exist.

    Raises:
        ApiError: `run_not_found`, or `not_found` once the run's data was erased.
    """
    state = find_state(tx, run_id, key_id)
    if state.data_purged_at is not None:
        raise ApiError(errors_pb2.ERROR_REASON_NOT_FOUND, "The run's data has been erased.")
    return state


def require_finished(run: RunRow | sql.RunStateRow) -> None:
    """Raises ApiError `run_not_terminal`, with the status, where the run has not finished."""
    if run.status not in RUN_TERMINAL:
        raise ApiError(errors_pb2.ERROR_REASON_RUN_NOT_TERMINAL, metadata={"status": run.status})


def run_not_found(run_id: str, key_id: str | None) -> ApiError:
    """Returns the error `run_not_found`; its message names the run to people, and is the contract's for keys."""
    return ApiError(errors_pb2.ERROR_REASON_RUN_NOT_FOUND, None if key_id else f"There is no run {run_id}.")


def _found(row: T | None, run_id: str, key_id: str | None) -> T:
    if row is None:
        raise run_not_found(run_id, key_id)
    return row


def hide_inputs(run: runs_pb2.Run, caller: Principal) -> None:
    """Removes the unswept inputs from a run whose policy redacts, if the caller is a person."""
    if caller.person is not None and run.pii_policy.mode == PII_MODE_REDACT:
        for name in _INPUTS:
            run.ClearField(name)


_INPUTS: Final = ("parameters", "input_text", "inputs_manifest")


class RunReads:
    """Reads of the runs of an API key, or of every run where the key id is None, for internal services."""

    def __init__(self, services: Services) -> None:
        self._database = services.database
        self._cursors = services.cursors

    def run(self, request: runs_pb2.GetRunRequest, caller: Principal) -> runs_pb2.Run:
        """Returns one run in full, or its tag alone if the caller knows the tag; raises ApiError `run_not_found`.

        Internal services also get the starter's name. If the policy redacts, people get no inputs here, but swept from
        `PreviewsService.GetRunInputs`.
        """
        key_id = caller.key_id
        row = self._database.read(lambda tx: sql.run(tx, request.run_id, key_id))
        if row is None:
            raise run_not_found(request.run_id, key_id)
        run = messages.detail(row)
        if run.etag in request.if_none_match or "*" in request.if_none_match:
            return runs_pb2.Run(etag=run.etag, not_modified=True)
        if key_id is None:
            by = self._database.read(lambda tx: sql.started_by(tx, request.run_id))
            run.MergeFrom(runs_pb2.Run(started_by=by, parent_step=row.parent_step))
        hide_inputs(run, caller)
        return run

    def runs(self, request: runs_pb2.ListRunsRequest, caller: Principal) -> runs_pb2.ListRunsResponse:
        """Returns a page of runs, newest first; raises ApiError `invalid_filter`, then `invalid_cursor`."""
        key_id = caller.key_id
        filters = read_filters(request).within(caller.workflow_ids)
        paging = Paging(self._cursors, request, key_id)
        after = None if paging.after is None else (int(paging.after[0]), str(paging.after[1]))
        rows = self._database.read(lambda tx: list_sql.newest(tx, key_id, filters, after, paging.rows_to_read))
        shown, token = paging.cut(rows, lambda row: (row.created_at, row.run_id))
        return runs_pb2.ListRunsResponse(items=list(map(messages.summary, shown)), next_page_token=token)

    def changed(self, request: runs_pb2.FindChangedRunsRequest) -> runs_pb2.FindChangedRunsResponse:
        """Returns the ids of runs that are gone or whose tag differs from the one in the request."""
        rows = self._database.read(lambda tx: sql.runs_in_full(tx, [run.run_id for run in request.runs]))
        etags = {row.run_id: messages.entity_tag(row) for row in rows}
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
                rows = sql.events_after(tx, segment.segment_id, after_seq, paging.rows_to_read)
                events = list(map(messages.event, rows))
            elif segment is not None:
                events = _events_for_people(tx, request, segment, after_seq, paging.rows_to_read)
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


def _events_for_people(
    tx: Tx, request: runs_pb2.ListRunEventsRequest, segment: SegmentRow, after_seq: int, limit: int
) -> list[runs_pb2.Event]:
    """Returns the selected events, with the person of each decision, whom the public API never names."""
    rows = sql.filtered_events_after(tx, segment.segment_id, after_seq, limit, request.types, request.step)
    decided = any(row.type == messages.DECIDED_EVENT for row in rows)
    deciders = sql.deciders(tx, request.run_id) if decided else {}
    return [messages.event_for_people(row, deciders) for row in rows]
