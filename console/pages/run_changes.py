"""Pages that cancel, resume or erase the runs ticked in the list: the question, then the outcome of each run."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, urlencode
from uuid import uuid4

from console.pages.run import GONE, MAX_REASON_CHARS
from console.pages.run_list import FILTERS, found_runs_request
from console.pages.run_resume import reason_of
from console.rendering import formatting
from console.rendering.text import short
from console.run.changes import DONE, MAX_TEXT_CHARS, MOST_RUNS, REFUSED, SKIPPED, RunChange, RunOutcome
from console.visit import PageResult, Redirect, View, Visit
from contract.refusals import Refusal
from contract.times import milliseconds_of
from workflow_api.v1.runs_pb2 import GetRunRequest, Run, RunSummary

BEGIN_SECONDS: Final = 5.0
"""Time in which one form begins to change runs; the next form continues with the remaining runs."""

_READS: Final = 8
_CHANGES: Final = 4
_LIST: Final = "/runs"
_UNREACHABLE: Final = "runtime_unreachable"
_MAX_FILTER_CHARS: Final = 4_000


class _Chosen(NamedTuple):
    """A ticked run; `left_out` says why the change does not concern it."""

    run_id: str
    run: RunSummary | None
    left_out: str


async def ask(change: RunChange, visit: Visit) -> PageResult:
    """Shows which of the ticked runs a change concerns, and why it leaves out the others; changes nothing."""
    filters = visit.query.get("filters", "")[:_MAX_FILTER_CHARS]
    run_ids = _distinct(visit.queries.get("run_id", ()))
    return _wrong_number(change, run_ids, filters) or await _question(change, visit, run_ids, filters)


async def carry_out(change: RunChange, visit: Visit) -> PageResult:
    """Changes the runs of the form, each by a call of its own, and shows the outcome of each.

    A form that was sent before changes nothing twice: a cancelled or erased run is skipped, and a resumed one has the
    same new run.
    """
    filters = visit.sent("filters")[:_MAX_FILTER_CHARS]
    run_ids = _distinct(visit.form.get("run_id", ()))
    if (misfit := _wrong_number(change, run_ids, filters)) is not None:
        return misfit
    reason, once = visit.sent("reason"), visit.sent("once")
    if len(reason) > MAX_REASON_CHARS:
        error = f"has at most {MAX_REASON_CHARS:,} characters; nothing was changed"
        return await _question(change, visit, run_ids, filters, reason, error)
    if not once:
        return await _question(change, visit, run_ids, filters, reason)
    new, reached = await _change_all(change, visit, run_ids, reason, once)
    earlier = [RunOutcome.from_field(value) for value in visit.form.get("outcome", ())[:MOST_RUNS]]
    outcomes = [*filter(None, earlier), *new]
    tried = {each.run_id for each in new}
    counts = {kind: sum(each.kind == kind for each in outcomes) for kind in (DONE, SKIPPED, REFUSED)}
    context = {
        "change": change,
        "outcomes": outcomes,
        "counts": counts,
        "left": [run_id for run_id in run_ids if run_id not in tried],
        "reached": reached,
        "reason": reason,
        "once": once,
        "filters": filters,
        "back": _back(filters),
    }
    return View("runs/changed.html", context, changed=True)


async def _question(
    change: RunChange, visit: Visit, run_ids: Sequence[str], filters: str, reason: str = "", error: str = ""
) -> View:
    slots = asyncio.Semaphore(_READS)

    async def read(run_id: str) -> _Chosen:
        async with slots:
            try:
                run: Run = await visit.services.call("RunsService/GetRun", GetRunRequest(run_id=run_id))
            except Refusal as refusal:
                if refusal.code not in GONE and refusal.code != "invalid_request":
                    raise
                return _Chosen(run_id, None, refusal.message)
        return _Chosen(run_id, run.summary, change.left_out(run))

    chosen = await asyncio.gather(*map(read, run_ids))
    context = {
        "change": change,
        "concerned": [each for each in chosen if not each.left_out],
        "left_out": [each for each in chosen if each.left_out],
        "badge": formatting.run_badge,
        "reason": reason,
        "error": error,
        "longest_reason": MAX_REASON_CHARS,
        "once": f"console-{uuid4().hex}",
        "filters": filters,
        "back": _back(filters),
        "command": _command(change, filters),
    }
    return View("runs/change.html", context, status=400 if error else 200)


async def _change_all(
    change: RunChange, visit: Visit, run_ids: Sequence[str], reason: str, once: str
) -> tuple[list[RunOutcome], bool]:
    """Returns the outcomes of the runs that were begun in time, and whether the backend answered to the end."""
    until = time.monotonic() + BEGIN_SECONDS
    outcomes: dict[str, RunOutcome] = {}
    waiting = iter(run_ids)
    unreachable = False

    async def work() -> None:
        nonlocal unreachable
        while not unreachable and time.monotonic() < until and (run_id := next(waiting, None)) is not None:
            try:
                answer = await visit.services.call(change.rpc, change.request(run_id, reason, once))
            except Refusal as refusal:
                if refusal.code == _UNREACHABLE:
                    # The run may have been changed all the same; the next try shows whether it was.
                    unreachable = True
                    return
                kind = SKIPPED if refusal.code in change.nothing_to_do else REFUSED
                outcomes[run_id] = RunOutcome(run_id, kind, short(" ".join(reason_of(refusal).split()), MAX_TEXT_CHARS))
            else:
                outcomes[run_id] = change.outcome(run_id, answer)

    await asyncio.gather(*(work() for _ in range(_CHANGES)))
    return [outcomes[run_id] for run_id in run_ids if run_id in outcomes], not unreachable


def _distinct(run_ids: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(each.strip() for each in run_ids if each.strip()))


def _wrong_number(change: RunChange, run_ids: Sequence[str], filters: str) -> Redirect | None:
    """Returns the redirect to the list that reports too few or too many runs; None for an allowed number."""
    if not run_ids:
        return Redirect(_back(filters), f"Nothing was changed: tick the runs to {change.verb} first.")
    if len(run_ids) > MOST_RUNS:
        return Redirect(
            _back(filters),
            f"Nothing was changed: {len(run_ids):,} runs are ticked, and at most {MOST_RUNS} are changed at once.",
        )
    return None


def _filters_of(filters: str) -> Mapping[str, str]:
    """Returns the filters of the list by the query of its address."""
    try:
        pairs = parse_qsl(filters, max_num_fields=len(FILTERS))
    except ValueError:
        return {}
    return {name: value for name, value in pairs if name in FILTERS}


def _back(filters: str) -> str:
    given = _filters_of(filters)
    return f"{_LIST}?{urlencode(given)}" if given else _LIST


def _command(change: RunChange, filters: str) -> str:
    """Returns the command for all runs that the filters of the list choose; empty where it has no such options."""
    given = _filters_of(filters)
    if "q" in given or "key" in given:
        return ""
    try:
        request: Any = found_runs_request(given, "")
    except Refusal:
        return ""
    after = milliseconds_of(request.created_after) if request.HasField("created_after") else 0
    before = milliseconds_of(request.created_before) if request.HasField("created_before") else 0
    return change.command(request.workflow_id, request.status, after, before)
