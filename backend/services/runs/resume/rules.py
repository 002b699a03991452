"""Rules of a resume: decides for each step of the new run whether it is reused or executed, and why."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from backend.common import json_text
from backend.common.errors import invalid
from backend.common.json_text import JsonObject
from backend.common.states import StepStatus
from backend.services.workflows.pii_policy import Policy
from backend.services.workflows.resolved_workflow import (
    APPROVAL,
    ApprovalSettings,
    FanOut,
    Phase,
    ResolvedStep,
    ResolvedWorkflow,
)

_MOST_NAMED: Final = 20


class EndedStep(NamedTuple):
    """A step of an ended run: its status, its number of files, and how many of these are still stored.

    `files_left` is None if it did not complete, or completed under a release that did not count files. `children` are
    the workflow versions, by id and number, of its completed child runs.
    """

    status: str
    files_left: int | None
    files_stored: int
    children: frozenset[tuple[str, int]] = frozenset()


@dataclass(frozen=True, slots=True)
class EndedRun:
    """The run to resume: its workflow version with resources, its steps by handle, its parameters and PII policy."""

    run_id: str
    workflow: ResolvedWorkflow
    steps: Mapping[str, EndedStep]
    parameters: JsonObject
    policy: Policy


@dataclass(frozen=True, slots=True)
class NewVersion:
    """Workflow version with resources, parameters and PII policy of the new run.

    `children` are the workflow versions, by id and number, that steps would start as child runs, by handle.
    """

    workflow: ResolvedWorkflow
    parameters: JsonObject
    policy: Policy
    children: Mapping[str, tuple[str, int]] = field(default_factory=dict)


class StepDecision(NamedTuple):
    """The decision on a step of the new run: `why` tells a person why it is executed; None means reused.

    `items_reused` says that an executed fan-out reuses its unchanged, completed items.
    """

    step: str
    why: str | None
    items_reused: bool = False


def decide_steps(ended: EndedRun, new: NewVersion, from_step: str | None) -> list[StepDecision]:
    """Returns a decision for each step of the new run, in the order of its definition.

    A step is reused when it completed, when its definition, its agent, its environment, the parameters and the PII
    policy are as they were, when its files are still stored, and when all steps that it needs are reused.

    Raises:
        ApiError: `invalid_request`, there is no step `from_step`.
    """
    # Steps of `on_failure` and `always` are never reused.
    steps = [step for step in new.workflow.steps if step.phase is Phase.MAIN]
    handles = [step.step for step in steps]
    if from_step is not None and from_step not in handles:
        named = ", ".join(handles[:_MOST_NAMED])
        raise invalid("from_step", f"must be a step of version {new.workflow.version}: {named}")
    of_all = _reason_for_all(ended, new)
    before = {step.step: step for step in ended.workflow.steps}
    why: dict[str, str | None] = {}
    items_reused: set[str] = set()
    for step in _in_order_of_needs(steps):
        if step.step == from_step:
            why[step.step] = "The run is resumed from this step."
            continue
        why[step.step] = (
            _reason_by_status(step.step, ended)
            or of_all
            or _reason_by_definition(before[step.step], step)
            or _reason_by_child(step, ended, new)
            or _reason_by_needs(step, why)
            or (None if step.kind == APPROVAL else _reason_by_files(step.step, ended, new))
        )
        if why[step.step] is not None and of_all is None and _reuses_items(step, why, ended, new):
            items_reused.add(step.step)
            why[step.step] = f"{why[step.step]} Its completed items are reused where they are unchanged."
    return [StepDecision(handle, why[handle], handle in items_reused) for handle in handles]


def _reuses_items(step: ResolvedStep, why: Mapping[str, str | None], ended: EndedRun, new: NewVersion) -> bool:
    """Returns whether an incomplete fan-out may reuse completed items, which are compared when it executes.

    The list is evaluated anew and compared item by item, so that the expression and the limits may have changed.
    """
    before = next((each for each in ended.workflow.steps if each.step == step.step), None)
    if before is None or before.fan_out is None or step.fan_out is None or step.step not in ended.steps:
        return False
    if _reason_by_child(step, ended, new) is not None or ended.steps[step.step].status == StepStatus.COMPLETED:
        return False
    unchanged = _reason_by_definition(replace(before, fan_out=step.fan_out), step) is None
    needed = _is_needed(step.step, new.workflow) and not _is_needed(step.step, ended.workflow)
    swept = ended.policy["mode"] != "off" and "steps" not in ended.policy.get("stages", ())
    return unchanged and not needed and not swept and _reason_by_needs(step, why) is None


def _in_order_of_needs(steps: Sequence[ResolvedStep]) -> list[ResolvedStep]:
    """Returns the steps in topological order: each behind all steps that it needs."""
    ordered: list[ResolvedStep] = []
    placed: set[str] = set()
    left = list(steps)
    while left:
        ready = [step for step in left if placed.issuperset(step.needs)]
        ordered += ready
        placed.update(step.step for step in ready)
        left = [step for step in left if step.step not in placed]
    return ordered


def _reason_by_status(step: str, ended: EndedRun) -> str | None:
    before = ended.steps.get(step)
    if before is None:
        return f"Run {ended.run_id} has no such step."
    if before.status != StepStatus.COMPLETED:
        return f"Its status in run {ended.run_id} is {before.status}."
    return None


def _reason_for_all(ended: EndedRun, new: NewVersion) -> str | None:
    """Returns why no step can be reused, or None."""
    for name in sorted({*ended.parameters, *new.parameters}):
        # Compared as JSON text, because Python's True equals 1.
        before, now = (
            json_text.canonical([name in given, given.get(name)]) for given in (ended.parameters, new.parameters)
        )
        if before != now:
            return f"The value of parameter '{name}' has changed."
    if [each.connector_id for each in ended.workflow.inputs] != [each.connector_id for each in new.workflow.inputs]:
        return "The connector of a parameter has changed."
    if ended.policy != new.policy:
        return "The PII policy has changed."
    return None


def _reason_by_definition(before: ResolvedStep, now: ResolvedStep) -> str | None:
    if before.agent_id != now.agent_id or before.agent != now.agent:
        return "Its agent has changed."
    if before.tools != now.tools:
        return "An agent that its agent has as a tool has changed."
    # The status of an environment does not affect a step's value.
    if {**before.environment, "status": None} != {**now.environment, "status": None}:
        return "Its environment has changed."
    # Retries and timeout do not affect a step's value.
    same = replace(
        before,
        name=now.name,
        agent=now.agent,
        environment=now.environment,
        retry=now.retry,
        timeout_seconds=now.timeout_seconds,
        approval=_with_deadlines_of(before.approval, now.approval),
        fan_out=_with_parallel_of(before.fan_out, now.fan_out),
    )
    return None if same == now else "Its definition has changed."


def _with_deadlines_of(before: ApprovalSettings | None, now: ApprovalSettings | None) -> ApprovalSettings | None:
    """Returns the earlier settings, but the present deadline and reminder, which do not affect a decision made."""
    if before is None or now is None:
        return before
    return now._replace(approvers=before.approvers, form_schema=before.form_schema)


def _with_parallel_of(before: FanOut | None, now: FanOut | None) -> FanOut | None:
    # Parallelism does not affect the values of items.
    return before if before is None or now is None else before._replace(max_parallel=now.max_parallel)


def _reason_by_child(step: ResolvedStep, ended: EndedRun, new: NewVersion) -> str | None:
    if step.child is None or ended.steps[step.step].children <= {new.children.get(step.step)}:
        return None
    return f"Workflow '{step.child.name}' has changed."


def _reason_by_needs(step: ResolvedStep, why: Mapping[str, str | None]) -> str | None:
    executed = next((need for need in step.needs if why[need] is not None), None)
    return f"It needs step '{executed}', which is executed." if executed else None


def _reason_by_files(step: str, ended: EndedRun, new: NewVersion) -> str | None:
    before = ended.steps[step]
    # Shared files are stored where another step needs them.
    if _is_needed(step, new.workflow) and not _is_needed(step, ended.workflow):
        return "Other steps need its files, and none did before."
    if before.files_left is None:
        return "It completed under an earlier release, which did not count its files."
    if before.files_left != before.files_stored:
        return "Not all of its files are stored any more."
    stages = ended.policy.get("stages", ())
    if before.files_left and ended.policy["mode"] != "off" and "steps" not in stages:
        return "Its stored files are swept for personal data, and later steps expect them as they were."
    return None


def _is_needed(step: str, workflow: ResolvedWorkflow) -> bool:
    return any(step in other.needs for other in workflow.steps)
