"""Search for runs by text and filters, for people: pages of runs with starter, duration and waiting time."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from backend.common.paging import Paging
from backend.common.states import RunStatus
from backend.services.dependencies import Services
from backend.services.runs import list_sql, messages, search_sql
from backend.services.runs.list_sql import RunSummaryRow
from backend.services.runs.rules import RunFilters, read_filters
from backend.services.runs.run_orders import COST_ORDERS, MOST_ORDERED, RunPosition, in_order, position_in
from backend.storage.database import Tx
from contract.times import set_milliseconds
from workflow_api.v1 import run_lists_pb2


class RunSearch:
    """Search of runs by id, client reference, label, starter and filters."""

    def __init__(self, services: Services) -> None:
        self._database = services.database
        self._cursors = services.cursors
        self._clock = services.clock

    def page(
        self, request: run_lists_pb2.ListFoundRunsRequest, workflow_ids: frozenset[str] | None
    ) -> run_lists_pb2.ListFoundRunsResponse:
        """Returns a page of matching runs in their order; raises ApiError `invalid_filter`, then as `Paging`."""
        filters = read_filters(request)
        wanted = _Wanted(
            request.search.strip(),
            request.key_id if request.HasField("key_id") else None,
            request.started_by if request.HasField("started_by") else None,
        )
        if request.order:
            # Bounds of time hold for the choice of the ordered runs, which begins with the newest.
            newest_first = replace(filters, oldest_first=False)
            return self._ordered_page(request, wanted, newest_first.within(workflow_ids))
        paging = Paging(self._cursors, request)
        after = None if paging.after is None else (int(paging.after[0]), str(paging.after[1]))

        def work(tx: Tx) -> run_lists_pb2.ListFoundRunsResponse:
            most = paging.rows_to_read
            parts = [_found(tx, wanted, each, after, most) for each in filters.within(workflow_ids)]
            rows, stopped = _cut(parts, most, filters.oldest_first)
            shown, token = paging.cut(rows, lambda row: (row.created_at, row.run_id))
            if token is None and stopped is not None:
                token = paging.token_after(stopped)
            return run_lists_pb2.ListFoundRunsResponse(items=_messages(tx, shown), next_page_token=token)

        return self._database.snapshot(work)

    def _ordered_page(
        self, request: run_lists_pb2.ListFoundRunsRequest, wanted: "_Wanted", filters: Sequence[RunFilters]
    ) -> run_lists_pb2.ListFoundRunsResponse:
        """Returns a page of the newest matching runs in an order other than by time."""
        order = request.order
        paging = Paging(self._cursors, request, of=str(order))
        # Durations of unfinished runs are those at the time of the first page, so that no run moves between pages.
        now = self._clock() if paging.after is None else int(paging.after[0])
        after = None if paging.after is None else RunPosition.read(paging.after[1:])

        def work(tx: Tx) -> run_lists_pb2.ListFoundRunsResponse:
            parts = [_found(tx, wanted, each, None, MOST_ORDERED + 1) for each in filters]
            rows, stopped = _cut(parts, MOST_ORDERED + 1, oldest_first=False)
            looked_at: tuple[int, str] | None = stopped
            if len(rows) > MOST_ORDERED:
                looked_at, rows = _position(rows[MOST_ORDERED - 1]), rows[:MOST_ORDERED]
            costs = search_sql.known_costs(tx, [row.run_id for row in rows]) if order in COST_ORDERS else {}
            ordered = in_order(order, rows, costs, now, after)
            shown, token = paging.cut(ordered, lambda row: (now, *position_in(order, row, costs, now)))
            answer = run_lists_pb2.ListFoundRunsResponse(items=_messages(tx, shown), next_page_token=token)
            if looked_at is not None:
                set_milliseconds(answer.ordered_since, looked_at[0])
            return answer

        return self._database.snapshot(work)


def child_runs(
    services: Services, request: run_lists_pb2.ListChildRunsRequest, workflow_ids: frozenset[str] | None
) -> run_lists_pb2.ListChildRunsResponse:
    """Returns a page of the children of a run, or of one of its steps, in the order of their starts.

    Raises as `Paging`. With `workflow_ids`, only children that run one of these workflows are returned.
    """
    paging = Paging(services.cursors, request, of=f"{request.run_id} {request.step}".rstrip())
    after = (0, "") if paging.after is None else (int(paging.after[0]), str(paging.after[1]))
    rows = services.database.read(
        lambda tx: list_sql.children(tx, request.run_id, request.step, after, paging.rows_to_read)
    )
    shown, token = paging.cut(rows, lambda row: (row.created_at, row.run_id))
    items = [
        run_lists_pb2.ChildRun(run=messages.summary(row), step=row.parent_step, item_index=row.parent_item)
        for row in shown
        if workflow_ids is None or row.workflow_id in workflow_ids
    ]
    return run_lists_pb2.ListChildRunsResponse(items=items, next_page_token=token)


_RunPage = tuple[Sequence[RunSummaryRow], search_sql.FoundRunPosition | None]
"""The first matching runs, and the position at which the search stopped before it had found enough of them."""


class _Wanted(NamedTuple):
    """Text, key and starter that runs must have; an empty text and None are no filter."""

    text: str
    key_id: str | None
    started_by: str | None


def _found(tx: Tx, wanted: _Wanted, filters: RunFilters, after: tuple[int, str] | None, limit: int) -> _RunPage:
    text, key_id, started_by = wanted
    if started_by is not None:
        return search_sql.by_starter(tx, started_by, text, key_id, filters, after, limit)
    if not text:
        return list_sql.page(tx, key_id, filters, after, limit), None
    found = list_sql.page(tx, key_id, replace(filters, client_reference=text), after, limit)
    if search_sql.is_start_of_id(text):
        found += search_sql.by_id(tx, text, key_id, filters, after, limit)
    # The whole text is tried as a value too, because a value may contain an equals sign.
    name, equals, value = text.partition("=")
    labels = [(None, text), *([(name.strip(), value.strip())] if equals else [])]
    labelled = [search_sql.by_label(tx, name, value, key_id, filters, after, limit) for name, value in labels]
    return _cut([(found, None), *labelled], limit, filters.oldest_first)


def _cut(parts: Sequence[_RunPage], limit: int, oldest_first: bool) -> _RunPage:
    """Merges pages: the runs in order up to the first position at which one of the searches stopped."""
    runs = {row.run_id: row for found, _ in parts for row in found}.values()
    rows = sorted(runs, key=_position, reverse=not oldest_first)
    stops = [stop for _, stop in parts if stop is not None]
    if not stops:
        return rows[:limit], None
    stopped = min(stops) if oldest_first else max(stops)
    within = [row for row in rows if (_position(row) <= stopped if oldest_first else _position(row) >= stopped)]
    return within[:limit], stopped


def _position(row: RunSummaryRow) -> tuple[int, str]:
    return row.created_at, row.run_id


def _messages(tx: Tx, rows: Sequence[RunSummaryRow]) -> list[run_lists_pb2.FoundRun]:
    run_ids = [row.run_id for row in rows]
    more = search_sql.more_of(tx, run_ids)
    priced = [run_id for run_id, each in zip(run_ids, more, strict=True) if each.model_calls]
    costs = dict(zip(priced, search_sql.costs(tx, priced), strict=True))
    parts = zip(rows, more, search_sql.approval_times(tx, run_ids), strict=True)
    return [_message(row, each, costs.get(row.run_id), approvals) for row, each, approvals in parts]


def _message(
    row: RunSummaryRow,
    more: search_sql.FoundRunRow,
    used: search_sql.CostRow | None,
    approvals: Sequence[search_sql.ApprovalTimesRow],
) -> run_lists_pb2.FoundRun:
    message = run_lists_pb2.FoundRun(
        run=messages.summary(row),
        key_id=more.key_id or None,
        started_by=more.started_by,
        model_calls=more.model_calls,
        tokens=more.input_tokens + more.output_tokens,
    )
    if used is not None:
        message.cost_microusd, message.unpriced_calls = used.cost_microusd, used.unpriced_calls
    if row.status == RunStatus.FAILED:
        message.error.code = more.error_code or ""
        if more.error_start is not None:
            cut = len(more.error_start) > search_sql.MAX_ERROR_CHARS
            message.error.message = more.error_start[: search_sql.MAX_ERROR_CHARS] + ("…" if cut else "")
    times = [
        (row.created_at, row.started_at or row.finished_at),
        *((each.requested_at, each.decided_at or row.finished_at) for each in approvals),
    ]
    waited, since = waits(times)
    set_milliseconds(message.waited, waited)
    if since is not None:
        set_milliseconds(message.waiting_since, since)
    return message


def waits(times: Iterable[tuple[int, int | None]]) -> tuple[int, int | None]:
    """Returns the total waiting time, and the beginning of the present wait, None if nothing waits.

    Each wait has a beginning and an end, None if it lasts. Waits may overlap; a lasting wait is not in the total.
    """
    times = list(times)
    since = min((first for first, last in times if last is None), default=None)
    total, until = 0, 0
    for first, last in sorted((first, last) for first, last in times if last is not None):
        end = last if since is None else min(last, since)
        total += max(0, end - max(first, until))
        until = max(until, end)
    return total, since
