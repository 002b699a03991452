"""Two runs of a workflow side by side: their inputs, their durations and their results."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from console.addresses import run_address
from console.pages.run import GONE, missing
from console.rendering import formatting
from console.rendering.excerpts import beginning
from console.run.comparison import differences
from console.run.inputs import read_run
from console.visit import PageResult, View, Visit
from contract.refusals import Refusal
from contract.times import milliseconds_of
from workflow_api.v1.runs_pb2 import ListRunsRequest, ListRunStepsRequest, Run, RunSummary, Step

_CANDIDATES: Final = 30
_MOST_TEXT_CHARS: Final = 2_000


async def show(visit: Visit) -> PageResult:
    """Compares a run with the one that the query names, or offers others of its workflow."""
    run_id, other_id = visit.path["run_id"], visit.query.get("with", "").strip()[:128]
    try:
        run, inputs = await read_run(visit.services, run_id)
        wanted = ListRunsRequest(workflow_id=run.summary.workflow_id, page_size=_CANDIDATES)
        listed = await visit.services.call("RunsService/ListRuns", wanted)
        context: dict[str, Any] = {
            "run": run,
            "here": run_address(run_id),
            "candidates": [(each.run_id, _described(each)) for each in listed.items if each.run_id != run_id],
            "with_id": other_id,
            "other": None,
        }
        if other_id:
            other, others = await read_run(visit.services, other_id)
            context |= await _comparison(visit, run, other)
            # What could not be swept in one says more than what was swept in the other.
            context["inputs"] = max(inputs, others, key=lambda each: (each.preparing, each.problem, each.redacted))
    except Refusal as refusal:
        if refusal.code not in GONE:
            raise
        return missing(refusal.message)
    return View("runs/compare.html", context)


async def _comparison(visit: Visit, run: Run, other: Run) -> Mapping[str, Any]:
    ours, theirs = await asyncio.gather(_steps(visit, run), _steps(visit, other))
    erased = [each.summary.run_id for each in (run, other) if each.HasField("data_purged_at")]
    texts_differ = run.input_text != other.input_text
    return {
        "other": other,
        "there": run_address(other.summary.run_id),
        "badges": [formatting.run_badge(each.summary.status) for each in (run, other)],
        "lasted": [_lasted(each.summary) for each in (run, other)],
        "erased": erased,
        "parameters": differences(run.parameters, other.parameters),
        "texts": [beginning(each.input_text, _MOST_TEXT_CHARS)[0] for each in (run, other)] if texts_differ else (),
        "steps": [
            (name, ours.get(name), theirs.get(name), _slower(ours.get(name), theirs.get(name)))
            for name in {**ours, **theirs}
        ],
        "step_badge": formatting.step_badge,
        "step_lasted": _lasted,
        "results": differences(run.result, other.result),
        "results_are_large": any(each.HasField("result_json") and not each.result for each in (run, other)),
    }


async def _steps(visit: Visit, run: Run) -> Mapping[str, Step]:
    if run.HasField("data_purged_at"):
        return {}
    request = ListRunStepsRequest(run_id=run.summary.run_id)
    read = await visit.services.call("RunsService/ListRunSteps", request)
    return {step.step: step for step in read.items}


def _lasted(of: RunSummary | Step) -> str:
    return formatting.duration(milliseconds_of(of.duration)) if of.HasField("duration") else ""


def _slower(ours: Step | None, theirs: Step | None) -> str:
    """Returns how much longer the second took, as `+2 s` or `-5 ms`; empty where one has no duration."""
    if ours is None or theirs is None or not (ours.HasField("duration") and theirs.HasField("duration")):
        return ""
    more = milliseconds_of(theirs.duration) - milliseconds_of(ours.duration)
    return f"{'+' if more >= 0 else '-'}{formatting.duration(abs(more))}"


def _described(summary: RunSummary) -> str:
    parts: Sequence[str] = (
        summary.run_id,
        formatting.run_badge(summary.status).text,
        f"version {summary.version}",
        _lasted(summary),
        summary.client_reference,
    )
    return ", ".join(part for part in parts if part)
