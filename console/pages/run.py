"""Page of one run: head, graph, timeline, selected step, results, events and inputs."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any, Final
from urllib.parse import urlencode

from console.addresses import run_address
from console.pages.approvals import MAX_COMMENT_CHARS, pending_approvals
from console.pages.logs import latest_logs
from console.paging import rows_from
from console.rendering import dag, formatting
from console.rendering.dag import MOST_STEPS, step_window
from console.rendering.text import beginning, sanitised, short
from console.rendering.times import now_ms
from console.run import bounds
from console.run.events import EventFilter, RunPosition, events_page, watch
from console.run.header import header
from console.run.sentences import KINDS, sentence
from console.run.step import item_logs, run_advice, selected_step, step_view
from console.run.texts import excerpts, inputs_of, read_run, reveal_run, texts_of, until_swept
from console.run.timeline import comments_of, life_events, spans_of, timeline
from console.visit import PageEvents, PageResult, Redirect, View, Visit
from contract.fields import rules_of
from contract.refusals import Refusal
from contract.times import milliseconds_of
from workflow_api.v1.outputs_pb2 import ListOutputsRequest, ListOutputsResponse
from workflow_api.v1.previews_pb2 import GetSummaryPreviewRequest, SummaryPreview
from workflow_api.v1.reviews_pb2 import APPROVAL_STATE_REJECTED, ListDecisionsRequest
from workflow_api.v1.run_lists_pb2 import ListChildRunsRequest
from workflow_api.v1.runs_pb2 import (
    RUN_STATUS_CANCELLED,
    RUN_STATUS_FAILED,
    STEP_KIND_WORKFLOW,
    STEP_STATUS_PENDING,
    CancelRunRequest,
    EraseRunDataRequest,
    Event,
    ListRunEventsRequest,
    ListRunEventsResponse,
    ListRunStepsRequest,
    Run,
    Step,
)

MAX_REASON_CHARS: Final = rules_of(CancelRunRequest.DESCRIPTOR.fields_by_name["reason"]).max_length

GONE: Final = frozenset({"run_not_found", "not_found", "segment_not_found"})

_SEQ: Final = re.compile(r"[0-9]{1,18}")
_STATE: Final = ("step", "steps", "segment", "after_seq", "kind", "of", "decisions", "approvals", "outputs")
"""Query parameters that choose the page's parts; links keep the parameters that they do not change."""
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
        parts = {} if run.HasField("data_purged_at") else await _parts(visit, run, preparing=inputs.preparing)
    except Refusal as refusal:
        if refusal.code not in GONE:
            raise
        return missing(refusal.message)
    summary = run.summary
    ended = formatting.RUN_STATUSES.get(summary.status) in formatting.ENDED
    erased = run.HasField("data_purged_at")
    return View(
        "runs/one.html",
        {
            **header(run, visit.user),
            "run": run,
            "bounds": bounds,
            "here": run_address(run_id),
            "erased": erased,
            "run_advice": run_advice(run.error.code) if run.HasField("error") else "",
            "can_repeat": visit.may("RunsService/StartRun") and not erased,
            "can_resume": visit.may("RunsService/ResumeRun")
            and not erased
            and summary.status in {RUN_STATUS_FAILED, RUN_STATUS_CANCELLED},
            "can_cancel": visit.may("RunsService/CancelRun") and not ended,
            "can_erase": visit.may("RunsService/EraseRunData") and ended and not erased,
            "longest": MAX_COMMENT_CHARS,
            "longest_reason": MAX_REASON_CHARS,
            # The person who rejected is erased with the data.
            "rejected": None,
            "children": (),
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
        visit.query.get("status", ""), visit.query.get("segment", ""), int(seq) if _SEQ.fullmatch(seq) else 0
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
    if not _SEQ.fullmatch(seq) or int(seq) < 1:
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
    """Returns the parts of a run whose data is not erased: steps, approvals, events, outputs.

    Raises:
        Refusal: as the services refuse, such as after an erasure meanwhile.
    """
    run_id = run.summary.run_id
    query = visit.query
    asked = query.get("after_seq", "")
    kind = query.get("kind", "") if query.get("kind", "") in KINDS else ""
    event_filter = EventFilter(KINDS[kind][1] if kind else (), query.get("of", "")[:128])
    after_seq = int(asked) if _SEQ.fullmatch(asked) else None
    steps, pending, decided, events, (outputs, withheld), logs, summary_html = await asyncio.gather(
        visit.services.call("RunsService/ListRunSteps", ListRunStepsRequest(run_id=run_id)),
        pending_approvals(visit, run_id),
        visit.services.call("ReviewsService/ListDecisions", ListDecisionsRequest(run_id=run_id)),
        events_page(visit.services, run_id, query.get("segment", ""), after_seq, event_filter),
        _outputs(visit, run_id),
        latest_logs(visit, run_id),
        _summary(visit, run),
    )
    children = await _children(visit, run_id) if any(step.kind == STEP_KIND_WORKFLOW for step in steps.items) else []
    life = await life_events(visit.services, run_id, events.read.segments)
    spans, comments = spans_of(life), comments_of(life)
    # A backend of an older release does not know the filter.
    pending = [each for each in pending if each.run_id == run_id]
    most = MOST_STEPS if len(steps.items) <= MOST_STEPS else bounds.STEPS
    window = step_window(steps.items, query.get("steps", ""), query.get("step", ""), lambda each: each.step, most)
    most_spans = min(bounds.SPANS, bounds.SPANS_OF_ALL // max(1, len(window.steps)))
    drawn = {step.step: spans[step.step][-most_spans:] for step in window.steps if step.step in spans}
    step = selected_step(query.get("step", ""), window.steps)
    selected = None
    if step is not None:
        selected = await step_view(visit, run_id, step, spans.get(step.step, ()), decided.items)
    listed = rows_from(() if outputs is None else outputs.items, query.get("outputs", ""), bounds.OUTPUTS)
    rejected = next((each for each in decided.items if each.state == APPROVAL_STATE_REJECTED), None)
    html = sanitised(summary_html.html, below=3) if summary_html.HasField("html") else None
    if html is not None and len(html.encode()) > bounds.SUMMARY:
        html = None
    progress = RunPosition.of(run, events.read)
    link = partial(_link, run_address(run_id), {name: query[name] for name in _STATE if query.get(name)})
    return {
        "link": link,
        "href_of_step": lambda name: link("step", step=name),
        "steps": [_step(each) for each in window.steps],
        "children": children,
        "window": window,
        "href_of_window": lambda number: link("steps", steps=str(number)),
        "href_of_approvals": lambda first: link("approvals", approvals=str(first)),
        "href_of_decisions": lambda first: link("decisions", decisions=str(first)),
        "href_of_outputs": lambda first: link("made", outputs=str(first)),
        "logs": logs,
        "selected": selected,
        "item_logs": [] if step is None else item_logs(run_id, step.step, logs),
        "drawing": dag.draw([_node(each) for each in window.steps]),
        "timeline": timeline(run.summary, window.steps, drawn, now_ms()),
        "approvals": rows_from(pending, query.get("approvals", ""), bounds.APPROVALS),
        "decisions": rows_from(
            [
                (each, formatting.approval_badge(each.state), comments.get(each.approval_id, ""))
                for each in decided.items
            ],
            query.get("decisions", ""),
            bounds.DECISIONS,
        ),
        "rejected": rejected,
        "rejected_because": "" if rejected is None else comments.get(rejected.approval_id, ""),
        "events": events,
        "kinds": [("", "any"), *((name, words) for name, (words, _) in KINDS.items())],
        "kind": kind,
        "of": event_filter.step,
        "stream": ""
        if progress.ended and not withheld and not preparing
        else _stream_address(run_id, progress, preparing),
        "outputs": None if outputs is None else listed,
        "outputs_size": "" if outputs is None else formatting.size(outputs.total_bytes),
        "outputs_withheld": withheld,
        "summary_html": html,
        "summary_cut": summary_html.cut,
        "event_rows": [
            (
                event,
                short(sentence(event.type, event.step, event.data), bounds.LISTED),
                *beginning("" if event.data == "{}" else event.data, bounds.JSON),
            )
            for event in events.read.events
        ],
    }


async def _children(visit: Visit, run_id: str) -> list[Mapping[str, Any]]:
    """Returns the runs that steps of a run started, as rows of a table."""
    answer = await visit.services.call("RunListsService/ListChildRuns", ListChildRunsRequest(run_id=run_id))
    return [
        {
            "child": child,
            "badge": formatting.run_badge(child.run.status),
            "lasted": formatting.duration(milliseconds_of(child.run.duration))
            if child.run.HasField("duration")
            else "",
        }
        for child in answer.items
    ]


async def _outputs(visit: Visit, run_id: str) -> tuple[ListOutputsResponse | None, str]:
    """Returns the outputs of a run, or the reason why outputs are not listed yet."""
    try:
        return await visit.services.call("OutputsService/ListOutputs", ListOutputsRequest(run_id=run_id)), ""
    except Refusal as refusal:
        if refusal.code not in {"run_not_terminal", "redaction_pending"}:
            raise
        return None, refusal.message


async def _summary(visit: Visit, run: Run) -> SummaryPreview:
    if not run.summary_markdown:
        return SummaryPreview()
    request = GetSummaryPreviewRequest(run_id=run.summary.run_id)
    found: SummaryPreview = await visit.services.call("PreviewsService/GetSummaryPreview", request)
    return found


def _link(address: str, state: Mapping[str, str], anchor: str = "", **changed: str | int | None) -> str:
    """Returns the address of this page with changed query parameters; None and "" remove a parameter."""
    query = {name: value for name, value in {**state, **changed}.items() if value not in {None, ""}}
    return address + (f"?{urlencode(query)}" if query else "") + (f"#{anchor}" if anchor else "")


def _stream_address(run_id: str, progress: RunPosition, preparing: bool) -> str:
    query = {**progress._asdict(), **({"preparing": "yes"} if preparing else {})}
    return f"{run_address(run_id)}/stream?{urlencode(query)}"


def _step(step: Step) -> Mapping[str, Any]:
    return {
        "step": step,
        "kind": formatting.step_kind(step.kind),
        "badge": formatting.step_badge(step.status),
        "lasted": formatting.duration(milliseconds_of(step.duration)) if step.HasField("duration") else "",
    }


def _node(step: Step) -> dag.Node:
    badge = formatting.step_badge(step.status)
    css_class = "pending" if step.status == STEP_STATUS_PENDING else badge.kind
    return dag.Node(step.step, step.name or step.step, tuple(step.needs), badge.text, css_class)
