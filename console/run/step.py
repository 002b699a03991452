"""The selected step of a run: what it needed and made, its attempts, its log and what to do about its error."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from console.rendering import formatting
from console.rendering.excerpts import beginning, ending, short
from console.run import counts
from console.run.advice import advice
from console.run.attempts import Span
from console.run.sentences import error_text
from console.visit import Visit
from contract.refusals import Refusal
from contract.times import milliseconds_of
from workflow_api.v1.logs_pb2 import GetRunLogRequest, RunLog
from workflow_api.v1.previews_pb2 import GetStepPreviewRequest, StepPreview
from workflow_api.v1.reviews_pb2 import Decision
from workflow_api.v1.runs_pb2 import STEP_STATUS_FAILED, Step

_GONE: Final = frozenset({"run_not_found", "not_found", "invalid_request"})


def selected_step(asked: str, steps: Sequence[Step]) -> Step | None:
    """Returns the step that was asked for, else the first that failed."""
    for step in steps:
        if step.step == asked:
            return step
    return next((step for step in steps if step.status == STEP_STATUS_FAILED), None) if not asked else None


async def step_view(
    visit: Visit, run_id: str, step: Step, spans: Sequence[Span], decisions: Sequence[Decision]
) -> Mapping[str, Any]:
    """Returns what the panel of a step shows; raises Refusal of a service."""
    needed = list(step.needs)[: counts.NEEDED]
    log, (own, *inputs) = await asyncio.gather(
        _log(visit, run_id, step.step),
        asyncio.gather(*(_preview(visit, run_id, each) for each in (step.step, *needed))),
    )
    last = next((span for span in reversed(spans) if span.outcome == "failed"), None)
    attempts = [_attempt(span) for span in spans[-counts.ATTEMPTS :]]
    log_text, log_cut = ending(log.text, counts.VALUE) if log else ("", False)
    return {
        "step": step,
        "badge": formatting.step_badge(step.status),
        "kind": formatting.step_kind(step.kind),
        "lasted": formatting.duration(milliseconds_of(step.duration)) if step.HasField("duration") else "",
        "advice": advice(step.error.code, last.error_type if last else "") if step.HasField("error") else "",
        "own": _shown(step.step, own),
        "needs": [_shown(name, preview) for name, preview in zip(needed, inputs, strict=True)],
        "needs_left_out": len(step.needs) - len(needed),
        "attempts": attempts,
        "attempts_left_out": len(spans) - len(attempts),
        "log": log,
        "log_text": log_text,
        "log_cut": log_cut or (log is not None and log.cut),
        "decision": next((each for each in decisions if each.step == step.step), None),
    }


async def _preview(visit: Visit, run_id: str, step: str) -> StepPreview:
    request = GetStepPreviewRequest(run_id=run_id, step=step)
    preview: StepPreview = await visit.services.call("PreviewsService/GetStepPreview", request)
    return preview


async def _log(visit: Visit, run_id: str, step: str) -> RunLog | None:
    """Returns the end of the log of the latest attempt, for those who may read logs; None where there is none."""
    if not visit.may("LogsService/GetRunLog"):
        return None
    request = GetRunLogRequest(run_id=run_id, step=step, tail_chars=counts.VALUE)
    try:
        found: RunLog = await visit.services.call("LogsService/GetRunLog", request)
    except Refusal as refusal:
        if refusal.code not in _GONE:
            raise
        return None
    return found if found.text or found.log.HasField("problem") else None


def _shown(name: str, preview: StepPreview) -> Mapping[str, Any]:
    text = formatting.json_lines(preview.value.text) if preview.HasField("value") else ""
    value, cut = beginning("" if text == "null" else text, counts.VALUE)
    files = preview.files[: counts.FILES]
    return {
        "name": name,
        "preview": preview,
        "value": value,
        "cut": preview.value.cut or cut,
        "files": [(file, formatting.size(file.size_bytes)) for file in files],
        "left_out": preview.files_total - len(files),
    }


def _attempt(span: Span) -> Mapping[str, Any]:
    waiting = span.kind == "waiting"
    words = "waiting for the next attempt" if span.attempt else "waiting for a person"
    return {
        "words": words if waiting else f"attempt {span.attempt}",
        "outcome": span.outcome or ("going on" if span.ended_at is None else ""),
        "began_at": span.began_at,
        "lasted": "" if span.ended_at is None else formatting.duration(max(0, span.ended_at - span.began_at)),
        "error": short(error_text(span.error_type, span.message), counts.ATTEMPT),
    }
