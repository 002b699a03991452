"""Page of one run: a head, and a tab of steps, results, events or inputs."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final
from urllib.parse import urlencode

from console.addresses import run_address
from console.pages.approvals import MAX_COMMENT_CHARS, pending_approvals
from console.pages.logs import latest_logs
from console.rendering import formatting
from console.rendering.text import beginning, short
from console.run import bounds
from console.run.board import board
from console.run.events import EventFilter, RunPosition, watch
from console.run.header import failure, header, lines_of
from console.run.sentences import KINDS, sentence
from console.run.step import advice
from console.run.tabs import SEQ, STATE, TABS, decision_rows, event_rows, events_of, link_of, results, tab_of
from console.run.texts import excerpts, inputs_of, read_run, reveal_run, texts_of, until_swept
from console.run.timeline import comments_of, life_events, spans_of
from console.visit import PageEvents, PageResult, Redirect, View, Visit
from contract.fields import rules_of
from contract.refusals import Refusal
from workflow_api.v1.outputs_pb2 import ListOutputsRequest, ListOutputsResponse
from workflow_api.v1.reviews_pb2 import APPROVAL_STATE_REJECTED, ListDecisionsRequest
from workflow_api.v1.runs_pb2 import (
    RUN_STATUS_CANCELLED,
    RUN_STATUS_FAILED,
    STEP_KIND_WORKFLOW,
    CancelRunRequest,
    EraseRunDataRequest,
    Event,
    ListRunEventsRequest,
    ListRunEventsResponse,
    ListRunStepsRequest,
    Run,
)

MAX_REASON_CHARS: Final = rules_of(CancelRunRequest.DESCRIPTOR.fields_by_name["reason"]).max_length

GONE: Final = frozenset({"run_not_found", "not_found", "segment_not_found"})

_EVENT_CHARS: Final = 60_000
_EVENT_BYTES: Final = 80_000

_TOO_LONG: Final = f"Nothing was changed: a reason has at most {MAX_REASON_CHARS:,} characters."


def missing(message: str) -> View:
    """Returns the page in place of a run that cannot be shown."""
    return View("runs/missing.html", {"message": message}, status=404)


async def show(visit: Visit) -> PageResult:
    """Shows one run; of an erased run the remaining facts."""
    run_id = visit.path["run_id"]
    try:
        run, inputs = await read_run(visit.services, run_id)
        erased = run.HasField("data_purged_at")
        parts = {} if erased else await _parts(visit, run, preparing=inputs.preparing)
    except Refusal as refusal:
        if refusal.code not in GONE:
            raise
        return missing(refusal.message)
    summary = run.summary
    ended = formatting.RUN_STATUSES.get(summary.status) in formatting.ENDED
    return View(
        "runs/one.html",
        {
            **header(run, visit.user),
            "run": run,
            "bounds": bounds,
            "here": run_address(run_id),
            "erased": erased,
            # What went wrong is said of the step, where it is a step.
            "run_advice": advice(run.error.code) if run.error.code != "node_failed" else "",
            "can_repeat": visit.may("RunsService/StartRun") and not erased,
            "can_resume": visit.may("RunsService/ResumeRun")
            and not erased
            and summary.status in {RUN_STATUS_FAILED, RUN_STATUS_CANCELLED},
            "can_cancel": visit.may("RunsService/CancelRun") and not ended,
            "can_erase": visit.may("RunsService/EraseRunData") and ended and not erased,
            "longest": MAX_COMMENT_CHARS,
            "longest_reason": MAX_REASON_CHARS,
            "failure": failure(run, ()),
            "starts_runs": False,
            "outputs": None,
            **parts,
            "inputs": inputs,
            "can_reveal": inputs.redacted and visit.may("PreviewsService/RevealRunInputs"),
            "texts": excerpts(texts_of(run)),
        },
    )


async def stream(visit: Visit) -> PageResult:
    """Streams updates of a run; the query names the state that the page shows."""
    seq = visit.query.get("seq", "")
    seen = RunPosition(
        visit.query.get("status", ""), visit.query.get("segment", ""), int(seq) if SEQ.fullmatch(seq) else 0
    )
    return PageEvents(_updates(visit, seen))


async def show_inputs(visit: Visit) -> PageResult:
    """Shows the inputs of a run as given, to people who may start it again; recorded in the audit trail."""
    try:
        run = await reveal_run(visit.services, visit.path["run_id"])
    except Refusal as refusal:
        if refusal.code not in GONE:
            raise
        return missing(refusal.message)
    context = {
        "run": run,
        "here": run_address(run.summary.run_id),
        "texts": excerpts(inputs_of(run), bounds.REVEALED),
    }
    return View("runs/inputs.html", context)


async def read_event(visit: Visit) -> Event | View:
    """Returns the event that the address names, or the page for a missing event."""
    run_id, segment, seq = visit.path["run_id"], visit.path["segment"], visit.path["seq"]
    if not SEQ.fullmatch(seq) or int(seq) < 1:
        return missing("An event is a number from 1.")
    request = ListRunEventsRequest(run_id=run_id, segment=segment, after_seq=int(seq) - 1, page_size=1)
    try:
        read: ListRunEventsResponse = await visit.services.call("RunsService/ListRunEvents", request)
    except Refusal as refusal:
        if refusal.code not in GONE:
            raise
        return missing(refusal.message)
    if not read.events:
        return missing("The segment has no such event.")
    return read.events[0]


async def show_event(visit: Visit) -> PageResult:
    """Shows one event with its data."""
    event = await read_event(visit)
    if isinstance(event, View):
        return event
    text, cut = beginning(formatting.json_lines(event.data), _EVENT_CHARS, _EVENT_BYTES)
    context = {
        "here": run_address(visit.path["run_id"]),
        "segment": visit.path["segment"],
        "event": event,
        "sentence": short(sentence(event.type, event.step, event.data), bounds.MESSAGE),
        "text": text,
        "cut": cut,
    }
    return View("runs/event.html", context)


async def cancel(visit: Visit) -> PageResult:
    """Requests the cancellation of a run."""
    run_id = visit.path["run_id"]
    address = run_address(run_id)
    request = CancelRunRequest(run_id=run_id, reason=visit.sent("reason") or None)
    if len(request.reason) > MAX_REASON_CHARS:
        return Redirect(address, _TOO_LONG)
    try:
        answer = await visit.services.call("RunsService/CancelRun", request)
    except Refusal as refusal:
        if refusal.code in GONE:
            return missing(refusal.message)
        if refusal.code != "already_terminal":
            raise
        return Redirect(address, "Nothing was changed: the run had ended already.")
    ended = formatting.RUN_STATUSES.get(answer.status) in formatting.ENDED
    return Redirect(address, "The run is cancelled." if ended else "The run is being cancelled.")


async def erase(visit: Visit) -> PageResult:
    """Erases the data of a run that has ended."""
    run_id = visit.path["run_id"]
    address = run_address(run_id)
    request = EraseRunDataRequest(run_id=run_id, reason=visit.sent("reason") or None)
    if len(request.reason) > MAX_REASON_CHARS:
        return Redirect(address, _TOO_LONG)
    try:
        await visit.services.call("RunsService/EraseRunData", request)
    except Refusal as refusal:
        if refusal.code in GONE:
            return missing(refusal.message)
        if refusal.code not in {"run_not_terminal", "already_purged"}:
            raise
        return Redirect(address, f"Nothing was changed: {refusal.message}")
    return Redirect(address, "The data of the run is erased.")


async def _updates(visit: Visit, seen: RunPosition) -> AsyncIterator[tuple[str, str]]:
    run_id = visit.path["run_id"]
    if visit.query.get("preparing"):
        async for update in until_swept(visit.services, run_id):
            yield update
    async for update in watch(visit.services, run_id, seen):
        yield update


async def _parts(visit: Visit, run: Run, *, preparing: bool) -> Mapping[str, Any]:
    """Returns what is shown of a run whose data is not erased: what every tab shows, and the chosen tab.

    Raises:
        Refusal: as the services refuse, such as after an erasure meanwhile.
    """
    run_id, query = run.summary.run_id, visit.query
    tab = tab_of(query)
    kind = query.get("kind", "") if query.get("kind", "") in KINDS else ""
    event_filter = EventFilter(KINDS[kind][1] if kind else (), query.get("of", "")[:128])
    steps, decided, (outputs, withheld), events = await asyncio.gather(
        visit.services.call("RunsService/ListRunSteps", ListRunStepsRequest(run_id=run_id)),
        visit.services.call("ReviewsService/ListDecisions", ListDecisionsRequest(run_id=run_id)),
        _outputs(visit, run_id),
        events_of(visit, run_id, event_filter if tab == "events" else None),
    )
    rejected = next((each for each in decided.items if each.state == APPROVAL_STATE_REJECTED), None)
    life = []
    if tab in {"steps", "events"} or rejected is not None:
        life = await life_events(visit.services, run_id, events.read.segments)
    comments = comments_of(life)
    state = {name: query[name] for name in STATE[tab] if query.get(name)}
    kept = {"step": query["step"]} if query.get("step") else {}
    address = run_address(run_id)

    def link(anchor: str = "", to: str = tab, **changed: str | int | None) -> str:
        return link_of(
            address, {**({} if to == TABS[0] else {"tab": to}), **(state if to == tab else kept), **changed}, anchor
        )

    progress = RunPosition.of(run, events.read)
    shown: Mapping[str, Any] = {}
    if tab == "steps":
        pending, logs = await asyncio.gather(pending_approvals(visit, run_id), latest_logs(visit, run_id))
        shown = await board(
            visit,
            run,
            steps.items,
            spans_of(life),
            link,
            pending=pending,
            decisions=decided.items,
            logs=logs,
        )
    elif tab == "results":
        shown = await results(visit, run, outputs, link)
    elif tab == "events":
        shown = {
            **event_rows(events),
            **decision_rows(visit, decided.items, comments, link),
            "kinds": [("", "any"), *((name, words) for name, (words, _) in KINDS.items())],
            "kind": kind,
            "of": event_filter.step,
            "steps": [each.step for each in steps.items],
        }
    else:
        shown = {"lines": lines_of(run)}
    return {
        "link": link,
        "tab": tab,
        "tabs": [
            ("steps", "Steps", len(steps.items)),
            ("results", "Results", run.summary.counts.outputs),
            ("events", "Events", sum(segment.last_seq for segment in events.read.segments)),
            ("inputs", "Inputs", 0),
        ],
        "failure": failure(
            run, steps.items, rejected, comments.get(rejected.approval_id, "") if rejected is not None else ""
        ),
        "starts_runs": any(step.kind == STEP_KIND_WORKFLOW for step in steps.items),
        "stream": ""
        if progress.ended and not withheld and not preparing
        else _stream_address(run_id, progress, preparing),
        "outputs": outputs,
        "outputs_withheld": withheld,
        **shown,
    }


async def _outputs(visit: Visit, run_id: str) -> tuple[ListOutputsResponse | None, str]:
    """Returns the outputs of a run, or the reason why outputs are not listed yet."""
    try:
        return await visit.services.call("OutputsService/ListOutputs", ListOutputsRequest(run_id=run_id)), ""
    except Refusal as refusal:
        if refusal.code not in {"run_not_terminal", "redaction_pending"}:
            raise
        return None, refusal.message


def _stream_address(run_id: str, progress: RunPosition, preparing: bool) -> str:
    query = {**progress._asdict(), **({"preparing": "yes"} if preparing else {})}
    return f"{run_address(run_id)}/stream?{urlencode(query)}"
