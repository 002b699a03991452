"""Page that compares two runs of a workflow: their inputs, durations and results."""

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from console.addresses import run_address
from console.pages.run import GONE, missing
from console.rendering import formatting
from console.rendering.text import beginning
from console.run.texts import read_run
from console.visit import PageResult, View, Visit
from contract.refusals import Refusal
from contract.times import milliseconds_of
from workflow_api.v1.runs_pb2 import ListRunsRequest, ListRunStepsRequest, Run, RunSummary, Step

_CANDIDATES: Final = 30
_MOST_TEXT_CHARS: Final = 2_000

_MOST_LEAVES: Final = 20_000
_MOST_SHOWN: Final = 100
_MOST_CHARS: Final = 200
_MOST_DEPTH: Final = 100


async def show(visit: Visit) -> PageResult:
    """Compares a run with the run that the query names, or offers other runs of its workflow."""
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
            # An unfinished or failed redaction of one run is shown rather than the success of the other run.
            context["inputs"] = max(inputs, others, key=lambda each: (each.preparing, each.problem, each.redacted))
    except Refusal as refusal:
        if refusal.code not in GONE:
            raise
        return missing(refusal.message)
    return View("runs/compare.html", context)


class JsonDifference(NamedTuple):
    """A differing part: its path, and its JSON on each side, empty where a side lacks the part."""

    path: str
    left: str
    right: str


class JsonDifferences(NamedTuple):
    """The first differing parts, the numbers of differing and equal parts; `cut` is True for too large values."""

    shown: Sequence[JsonDifference]
    total: int
    equal: int
    cut: bool


def differences(left: str, right: str) -> JsonDifferences:
    """Returns the differences between two JSON texts; an empty text is no value."""
    left_values, left_cut = _leaves(left)
    right_values, right_cut = _leaves(right)
    found = [
        JsonDifference(path or "the value", left_values.get(path, ""), right_values.get(path, ""))
        for path in {**left_values, **right_values}
        if left_values.get(path) != right_values.get(path)
    ]
    shown = [JsonDifference(_short(each.path), _short(each.left), _short(each.right)) for each in found[:_MOST_SHOWN]]
    equal = len({**left_values, **right_values}) - len(found)
    return JsonDifferences(shown, len(found), equal, left_cut or right_cut)


class InputFiles(NamedTuple):
    """The files of a parameter's prefix, or one file of it, in each run: in words, empty where a run lacks them."""

    name: str
    left: str
    right: str


def input_files(left: str, right: str) -> tuple[Sequence[InputFiles], int]:
    """Returns the first files that were copied in for either run, and the number of all, of two manifests as JSON."""
    ours, theirs = _files(left), _files(right)
    found = [InputFiles(name, ours.get(name, ""), theirs.get(name, "")) for name in {**ours, **theirs}]
    # What differs comes first, so that equal files do not take its place.
    found.sort(key=lambda each: each.left == each.right)
    shown = [InputFiles(_short(each.name), each.left, each.right) for each in found[:_MOST_SHOWN]]
    return shown, len(found)


def _files(manifest: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for entry in json.loads(manifest or "[]"):
        total = f"{entry['objects']:,} files, {formatting.size(entry['bytes'])}"
        found[entry["parameter"]] = total
        for item in entry.get("items") or ():
            about = f"{formatting.size(item['size_bytes'])}, entity tag {item['etag']}"
            found[f"{entry['parameter']}/{item['key']}"] = about
    return found


async def _comparison(visit: Visit, run: Run, other: Run) -> Mapping[str, Any]:
    steps, other_steps = await asyncio.gather(_steps(visit, run), _steps(visit, other))
    erased = [each.summary.run_id for each in (run, other) if each.HasField("data_purged_at")]
    texts_differ = run.input_text != other.input_text
    return {
        "other": other,
        "there": run_address(other.summary.run_id),
        "badges": [formatting.run_badge(each.summary.status) for each in (run, other)],
        "lasted": [_lasted(each.summary) for each in (run, other)],
        "erased": erased,
        "errors": [_error(each) for each in (run, other)],
        "parameters": differences(run.parameters, other.parameters),
        "files": input_files(run.inputs_manifest, other.inputs_manifest),
        "texts": [beginning(each.input_text, _MOST_TEXT_CHARS)[0] for each in (run, other)] if texts_differ else (),
        "steps": [
            (name, steps.get(name), other_steps.get(name), _slower(steps.get(name), other_steps.get(name)))
            for name in {**steps, **other_steps}
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


def _error(run: Run) -> str:
    return _short(f"{run.error.code}: {run.error.message}".removesuffix(": ")) if run.HasField("error") else ""


def _lasted(of: RunSummary | Step) -> str:
    return formatting.duration(milliseconds_of(of.duration)) if of.HasField("duration") else ""


def _slower(step: Step | None, other_step: Step | None) -> str:
    """Returns the difference of durations, theirs minus ours, as `+2 s` or `-5 ms`; empty if one is unknown."""
    if step is None or other_step is None or not (step.HasField("duration") and other_step.HasField("duration")):
        return ""
    more = milliseconds_of(other_step.duration) - milliseconds_of(step.duration)
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


def _leaves(text: str) -> tuple[dict[str, str], bool]:
    """Returns the scalars of a value by path, and whether the value has more than were read."""
    if not text:
        return {}, False
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {"": text}, False
    found: dict[str, str] = {}
    for path, leaf in _walk("", value, 0):
        if len(found) >= _MOST_LEAVES:
            return found, True
        found[path] = leaf
    return found, False


def _walk(path: str, value: Any, depth: int) -> Iterator[tuple[str, str]]:
    members: Iterator[tuple[str, Any]]
    if depth < _MOST_DEPTH and value and isinstance(value, dict):
        members = ((f"{path}.{name}" if path else name, member) for name, member in value.items())
    elif depth < _MOST_DEPTH and value and isinstance(value, list):
        members = ((f"{path}[{number}]", member) for number, member in enumerate(value))
    else:
        yield path, json.dumps(value, ensure_ascii=False)
        return
    for name, member in members:
        yield from _walk(name, member, depth + 1)


def _short(text: str) -> str:
    return text if len(text) <= _MOST_CHARS else text[: _MOST_CHARS - 1] + "…"
