"""Selected step of a run: its inputs and value, its attempts, its log, and advice about its error.

The advice is a table by kind of failure; docs/agents.md and the contract (13.13) define the kinds.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from console.addresses import run_address
from console.rendering import formatting
from console.rendering.text import beginning, ending, short
from console.run import bounds
from console.run.sentences import error_text
from console.run.timeline import Span
from console.visit import Visit
from contract.refusals import Refusal
from contract.times import milliseconds_of
from workflow_api.v1.logs_pb2 import GetRunLogRequest, RunLog
from workflow_api.v1.model_usage_pb2 import GetRunModelUsageRequest, RunModelUsage, StepModelUsage
from workflow_api.v1.previews_pb2 import GetStepPreviewRequest, StepPreview
from workflow_api.v1.reviews_pb2 import Decision
from workflow_api.v1.runs_pb2 import (
    STEP_STATUS_FAILED,
    STEP_STATUS_RUNNING,
    STEP_STATUS_WAITING_FOR_APPROVAL,
    Run,
    Step,
)
from workflow_api.v1.workflows_pb2 import (
    RESOURCE_KIND_AGENT,
    GetResourceRequest,
    GetWorkflowDefinitionRequest,
    ResourceDefinition,
)

_FIRST: Final = (STEP_STATUS_FAILED, STEP_STATUS_WAITING_FOR_APPROVAL, STEP_STATUS_RUNNING)
_GONE: Final = frozenset({"run_not_found", "not_found", "invalid_request", "workflow_not_found", "version_not_found"})

_READ_RESOURCE: Final = "WorkflowsService/GetResource"

_MODEL_BUSY: Final = "The provider of the model was not available. Run it again later, or give the step a `retry`."
_BY_TYPE: Final[Mapping[str, str]] = {
    "ChildFailed": "See the run that the step started: its page says which of its steps failed, and why.",
    "ChildNotStarted": "Make the workflow that the step names ready, or correct the parameters that the step gives it.",
    "ModelTimeout": "The model was too slow. Raise `request_timeout_seconds` of the agent, or give the step a `retry`.",
    "TimeLimit": "The step ran into its time limit. Raise `timeout_seconds` of its environment, or give it less to do.",
    "ModelUnreachable": "Check that this machine reaches the provider of the model, then run it again.",
    "ModelRateLimited": _MODEL_BUSY,
    "ModelUnavailable": _MODEL_BUSY,
    "ModelServerError": _MODEL_BUSY,
    "ModelUnauthorized": "The provider refused the key: renew the secret of the model.",
    "ModelQuotaExceeded": "The account at the provider of the model has no quota left: raise it.",
    "ModelNotFound": "The provider does not know the model: correct `model` of the agent.",
    "ModelInputTooLong": "The input is longer than the model takes: give it less, or choose another model.",
    "ModelOutputTooLong": "The answer was cut off: raise `max_tokens` of the agent.",
    "ModelNotConfigured": "Give the deployment a key for this provider, or install its library.",
    "SecretUnavailable": "Set the secret that the message names in the settings, or correct its name in the agent.",
    "InvalidItems": "Correct `for_each` of the step, raise its `max_items`, or make the list shorter.",
    "InvalidAnswer": "The answer of the model does not fit `output_schema`: see the step's log, and adjust the prompt.",
    "OutputsNotStored": "The object store did not take the files of the step. Check it, then run it again.",
    "RedactionFailed": "Personal data could not be swept, so nothing was kept. Check the model of the PII policy.",
    "MemoryError": "The step needs more memory: raise `memory_mb` of its environment.",
}
_BY_CODE: Final[Mapping[str, str]] = {
    "node_failed": "The end of its log shows where it failed. Correct the agent or the inputs, and run it again.",
    "invariant_blocked": "It was rejected, or a step before it failed: see the decision or that step.",
    "input_materialisation_failed": "Check that the connector may read the prefix, and that it holds objects.",
    "wall_clock_limit_reached": "The time limit passed, waits for approvals included: raise `max_run_hours`.",
    "launch_failed": "The runtime could not start it. Nothing was done: run it again.",
    "orphaned": "Its process ended. Resume it, unless a run that its workflow asks for has taken over.",
    "license_unavailable": "The licence was on hold when it was to begin: see the deployment, then run it again.",
    "result_schema_mismatch": "The result is kept as the output result.json. Correct the agent, or the schema.",
}


def selected_step(asked: str, steps: Sequence[Step]) -> Step | None:
    """Returns the step named by `asked`; without a name the first that failed, waits or runs, else the last to end."""
    if asked:
        return next((step for step in steps if step.step == asked), None)
    for status in _FIRST:
        for step in steps:
            if step.status == status:
                return step
    return max(steps, key=lambda step: milliseconds_of(step.finished_at), default=None)


async def step_view(
    visit: Visit, run: Run, step: Step, spans: Sequence[Span], decisions: Sequence[Decision]
) -> Mapping[str, Any]:
    """Returns the template context of a step's panel; raises the Refusal of a service."""
    run_id = run.summary.run_id
    needed = list(step.needs)[: bounds.NEEDED]
    log, usage, agent, (own, *inputs) = await asyncio.gather(
        _log(visit, run_id, step.step),
        _usage(visit, run, step.step),
        _agent_name(visit, run, step.agent_id),
        asyncio.gather(*(_preview(visit, run_id, each) for each in (step.step, *needed))),
    )
    last = next((span for span in reversed(spans) if span.outcome == "failed"), None)
    attempts = [_attempt(span) for span in spans[-bounds.ATTEMPTS :]]
    log_text, log_cut = ending(log.text, bounds.VALUE) if log else ("", False)
    return {
        "step": step,
        "badge": formatting.step_badge(step.status),
        "kind": formatting.step_kind(step.kind),
        "agent": agent,
        "lasted": formatting.duration(milliseconds_of(step.duration)) if step.HasField("duration") else "",
        "advice": advice(step.error.code, last.error_type if last else "") if step.HasField("error") else "",
        "own": _shown(step.step, own),
        "needs": [_shown(name, preview) for name, preview in zip(needed, inputs, strict=True)],
        "needs_left_out": len(step.needs) - len(needed),
        "attempts": attempts,
        "attempts_left_out": len(spans) - len(attempts),
        "usage": usage,
        "log": log,
        "log_text": log_text,
        "log_cut": log_cut or (log is not None and log.cut),
        "decision": next((each for each in decisions if each.step == step.step), None),
    }


def advice(code: str, error_type: str = "") -> str:
    """Returns advice on an error by its type, else by its code; empty where unknown."""
    return _BY_TYPE.get(error_type) or _BY_CODE.get(code, "")


def item_logs(run_id: str, step: str, logs: Collection[str]) -> list[tuple[int, str]]:
    """Returns index and address of the logs of a fan-out's items, of at most so many as are listed."""
    indexes = sorted(int(name.rpartition("/")[2]) for name in logs if name.startswith(f"{step}/"))
    return [(index, f"{run_address(run_id)}/logs/{step}%2F{index}") for index in indexes[: bounds.ITEM_LOGS]]


async def _usage(visit: Visit, run: Run, step: str) -> list[tuple[StepModelUsage, str]]:
    """Returns the use of models by a step with its cost, by model; empty where the run called none."""
    if not run.usage.model_calls:
        return []
    request = GetRunModelUsageRequest(run_id=run.summary.run_id)
    found: RunModelUsage = await visit.services.call("ModelUsageService/GetRunModelUsage", request)
    return [(each, formatting.cost(each.use)) for each in found.steps if each.step == step][: bounds.MODELS]


async def _agent_name(visit: Visit, run: Run, agent_id: str) -> str:
    """Returns the name of an agent; its id if nothing remains of it.

    Who may not read agents may read the definition of their run's workflow, which names its agents.
    """
    if not agent_id:
        return ""
    try:
        if visit.may(_READ_RESOURCE):
            request = GetResourceRequest(kind=RESOURCE_KIND_AGENT, resource=agent_id)
            found: ResourceDefinition = await visit.services.call(_READ_RESOURCE, request)
            return found.resource.name
        of_run = GetWorkflowDefinitionRequest(workflow=run.summary.workflow_id, version=run.summary.version)
        definition = await visit.services.call("WorkflowsService/GetWorkflowDefinition", of_run)
    except Refusal as refusal:
        if refusal.code not in _GONE:
            raise
        return agent_id
    return next((each.name for each in definition.resources if each.id == agent_id), agent_id)


async def _preview(visit: Visit, run_id: str, step: str) -> StepPreview:
    request = GetStepPreviewRequest(run_id=run_id, step=step)
    preview: StepPreview = await visit.services.call("PreviewsService/GetStepPreview", request)
    return preview


async def _log(visit: Visit, run_id: str, step: str) -> RunLog | None:
    """Returns the end of the latest attempt's log; None without log and transcript, or for people who may not read."""
    if not visit.may("LogsService/GetRunLog"):
        return None
    request = GetRunLogRequest(run_id=run_id, step=step, tail_chars=bounds.VALUE)
    try:
        found: RunLog = await visit.services.call("LogsService/GetRunLog", request)
    except Refusal as refusal:
        if refusal.code not in _GONE:
            raise
        return None
    return found if found.text or found.log.HasField("problem") or found.has_transcript else None


def _shown(name: str, preview: StepPreview) -> Mapping[str, Any]:
    text = formatting.json_lines(preview.value.text) if preview.HasField("value") else ""
    value, cut = beginning("" if text == "null" else text, bounds.VALUE)
    files = preview.files[: bounds.FILES]
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
        "badge": formatting.outcome_badge(span.outcome or ("going on" if span.ended_at is None else "ended")),
        "began_at": span.began_at,
        "lasted": "" if span.ended_at is None else formatting.duration(max(0, span.ended_at - span.began_at)),
        "error": short(error_text(span.error_type, span.message), bounds.ATTEMPT),
    }
