"""Pages of one run, with its steps, approvals, events and outputs."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote, urlencode

import orjson

from contract.fields import rules_of
from contract.times import milliseconds_of
from edge.codec.response import object_of
from edge.console import dag, formatting
from edge.console.pages.approvals import MAX_COMMENT_CHARS, pending_approvals
from edge.console.pages.logs import failure_logs, latest_logs
from edge.console.run_events import RunProgress, events_page, watch
from edge.console.visit import ADMINISTRATORS, ALL_ROLES, Answered, EventStream, Page, Redirect, View, Visit
from edge.errors import Refusal
from workflow_api.v1.outputs_pb2 import ListOutputsRequest, ListOutputsResponse
from workflow_api.v1.pii_policy_pb2 import PiiPolicy
from workflow_api.v1.reviews_pb2 import ListDecisionsRequest
from workflow_api.v1.runs_pb2 import (
    STEP_STATUS_PENDING,
    CancelRunRequest,
    GetRunRequest,
    ListRunStepsRequest,
    Run,
    Step,
)

MAX_REASON_CHARS: Final = rules_of(CancelRunRequest.DESCRIPTOR.fields_by_name["reason"]).max_length

_POLICY_OBJECT: Final = object_of(PiiPolicy.DESCRIPTOR, raw=orjson.Fragment, links=orjson.Fragment)
_SEQ: Final = re.compile(r"[0-9]{1,18}")
_GONE: Final = frozenset({"run_not_found", "not_found", "segment_not_found"})


async def show_one(visit: Visit) -> Answered:
    """Shows one run; of an erased one, what is left."""
    run_id = visit.path["run_id"]
    try:
        run: Run = await visit.services.call("RunsService/GetRun", GetRunRequest(run_id=run_id))
        parts = {} if run.HasField("data_purged_at") else await _parts(visit, run)
    except Refusal as refusal:
        if refusal.code not in _GONE:
            raise
        return View("runs/missing.html", {"message": refusal.message}, status=404)
    summary = run.summary
    ended = formatting.RUN_STATUSES.get(summary.status) in formatting.ENDED
    return View(
        "runs/one.html",
        {
            "run": run,
            "badge": formatting.run_badge(summary.status),
            "lasted": formatting.duration(milliseconds_of(summary.duration)) if summary.HasField("duration") else "",
            "started_by": formatting.trigger(run.triggered_by),
            "labels": sorted(summary.labels.items()),
            "erased": run.HasField("data_purged_at"),
            "can_cancel": visit.user.role in ADMINISTRATORS and not ended,
            "longest_reason": MAX_REASON_CHARS,
            "longest": MAX_COMMENT_CHARS,
            "json_texts": _json_texts(run),
            "result": formatting.json_lines(run.result),
            **parts,
        },
    )


async def cancel(visit: Visit) -> Answered:
    """Requests the cancellation of a run."""
    run_id = visit.path["run_id"]
    here = f"/runs/{quote(run_id, safe='')}"
    request = CancelRunRequest(run_id=run_id, reason=visit.sent("reason") or None)
    if len(request.reason) > MAX_REASON_CHARS:
        return Redirect(here, f"Nothing was changed: a reason has at most {MAX_REASON_CHARS:,} characters.")
    try:
        answer = await visit.services.call("RunsService/CancelRun", request)
    except Refusal as refusal:
        if refusal.code in _GONE:
            return View("runs/missing.html", {"message": refusal.message}, status=404)
        if refusal.code != "already_terminal":
            raise
        return Redirect(here, "Nothing was changed: the run had ended already.")
    ended = formatting.RUN_STATUSES.get(answer.status) in formatting.ENDED
    return Redirect(here, "The run is cancelled." if ended else "The run is being cancelled.")


async def stream(visit: Visit) -> Answered:
    """Streams updates of a run; the query says what the page shows."""
    seq = visit.query.get("seq", "")
    seen = RunProgress(
        visit.query.get("status", ""), visit.query.get("segment", ""), int(seq) if _SEQ.fullmatch(seq) else 0
    )
    return EventStream(watch(visit.services, visit.path["run_id"], seen))


async def _parts(visit: Visit, run: Run) -> Mapping[str, Any]:
    """Returns the parts of a run whose data is not erased: steps, approvals, events, outputs.

    Raises:
        Refusal: of a service, as where the data is erased meanwhile.
    """
    run_id = run.summary.run_id
    asked = visit.query.get("after_seq", "")
    after_seq = int(asked) if _SEQ.fullmatch(asked) else None
    steps, pending, decided, events, (outputs, withheld), logs = await asyncio.gather(
        visit.services.call("RunsService/ListRunSteps", ListRunStepsRequest(run_id=run_id)),
        pending_approvals(visit),
        visit.services.call("ReviewsService/ListDecisions", ListDecisionsRequest(run_id=run_id)),
        events_page(visit.services, run_id, visit.query.get("segment", ""), after_seq),
        _outputs(visit, run_id),
        latest_logs(visit, run_id),
    )
    progress = RunProgress.of(run, events.read)
    return {
        "steps": [_step(step) for step in steps.items],
        "logs": logs,
        "failures": await failure_logs(visit, run_id, steps.items),
        "drawing": dag.draw(_nodes(steps.items)),
        "approvals": [each for each in pending if each.run_id == run_id],
        "decisions": [(each, formatting.approval_badge(each.state)) for each in decided.items],
        "events": events,
        "event_rows": [(event, "" if event.data in {"", "{}"} else event.data) for event in events.read.events],
        "stream": "" if progress.ended and not withheld else _stream_address(run_id, progress),
        "outputs": None if outputs is None else [(each, formatting.size(each.size_bytes)) for each in outputs.items],
        "outputs_size": "" if outputs is None else formatting.size(outputs.total_bytes),
        "outputs_withheld": withheld,
    }


async def _outputs(visit: Visit, run_id: str) -> tuple[ListOutputsResponse | None, str]:
    """Returns the outputs of a run, or the reason why they are not listed yet."""
    try:
        return await visit.services.call("OutputsService/ListOutputs", ListOutputsRequest(run_id=run_id)), ""
    except Refusal as refusal:
        if refusal.code not in {"run_not_terminal", "redaction_pending"}:
            raise
        return None, refusal.message


def _stream_address(run_id: str, progress: RunProgress) -> str:
    return f"/runs/{quote(run_id, safe='')}/stream?{urlencode(progress._asdict())}"


def _step(step: Step) -> Mapping[str, Any]:
    return {
        "step": step,
        "kind": formatting.step_kind(step.kind),
        "badge": formatting.step_badge(step.status),
        "lasted": formatting.duration(milliseconds_of(step.duration)) if step.HasField("duration") else "",
    }


def _nodes(steps: Sequence[Step]) -> list[dag.Node]:
    return [_node(step) for step in steps]


def _node(step: Step) -> dag.Node:
    badge = formatting.step_badge(step.status)
    css_class = "pending" if step.status == STEP_STATUS_PENDING else badge.kind
    return dag.Node(step.step, step.name or step.step, tuple(step.needs), badge.text, css_class)


def _json_texts(run: Run) -> Sequence[tuple[str, str]]:
    """Returns the JSON texts of a run with their headings."""
    texts = (
        ("Parameters", run.parameters),
        ("Copied inputs", run.inputs_manifest),
        ("PII policy", _policy_text(run.pii_policy) if run.HasField("pii_policy") else ""),
        ("Redaction", run.pii_redaction),
    )
    return [(name, formatting.json_lines(text)) for name, text in texts if text]


def _policy_text(policy: PiiPolicy) -> str:
    return orjson.dumps(_POLICY_OBJECT(policy)).decode()


PAGES: Final[tuple[Page, ...]] = (
    Page("GET", "/runs/{run_id}", ALL_ROLES, show_one),
    Page("GET", "/runs/{run_id}/stream", ALL_ROLES, stream),
    Page("POST", "/runs/{run_id}/cancel", ADMINISTRATORS, cancel),
)
