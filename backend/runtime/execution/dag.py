"""Decides which steps of a workflow may begin, and which never will. Pure rules, no I/O.

A step begins when every step that it needs has completed. When an optional step fails, the optional steps behind it
are skipped, and a required step behind it is blocked: it cannot work without what it needs, so the run cannot go on.
When a required step fails, every step behind it is blocked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from backend.common.states import STEP_UNFINISHED, StepStatus
from backend.services.workflows.resolved_workflow import APPROVAL, ResolvedStep

_UNFINISHED: Final = frozenset(STEP_UNFINISHED)


@dataclass(frozen=True, slots=True)
class Plan:
    """The consequences of the steps' statuses; every tuple is in the order of the definition.

    Attributes:
        begin: Agent steps that may begin once there is a slot.
        ask: Approval steps whose approval may be asked for.
        skip: Pending steps that will never begin, and that the run completes without.
        block: Pending steps that will never begin, and that the run cannot do without.
        failed: The first required step that failed, if any: the run fails.
        stuck: The first step that is blocked though no required step failed, if any: the run cannot go on.
        done: Whether no step is left to begin, to finish or to be decided.
    """

    begin: tuple[str, ...]
    ask: tuple[str, ...]
    skip: tuple[str, ...]
    block: tuple[str, ...]
    failed: str | None
    stuck: str | None
    done: bool


def plan(steps: Sequence[ResolvedStep], status: Mapping[str, str]) -> Plan:
    """Returns the plan for these statuses; `status` has every step."""
    optional = {step.step: step.optional for step in steps}
    after = dict(status)
    changed = True
    while changed:
        changed = False
        for step in steps:
            if after[step.step] == StepStatus.PENDING and (final := _final_status(step, after, optional)) is not None:
                after[step.step] = final
                changed = True
    pending = [step for step in steps if status[step.step] == StepStatus.PENDING]
    ready = [
        step
        for step in pending
        if after[step.step] == StepStatus.PENDING and all(after[need] == StepStatus.COMPLETED for need in step.needs)
    ]
    failed = next((step.step for step in steps if after[step.step] == StepStatus.FAILED and not step.optional), None)
    blocked = next((step.step for step in steps if after[step.step] == StepStatus.BLOCKED), None)
    return Plan(
        begin=tuple(step.step for step in ready if step.kind != APPROVAL),
        ask=tuple(step.step for step in ready if step.kind == APPROVAL),
        skip=tuple(step.step for step in pending if after[step.step] == StepStatus.SKIPPED),
        block=tuple(step.step for step in pending if after[step.step] == StepStatus.BLOCKED),
        failed=failed,
        stuck=None if failed else blocked,
        done=_UNFINISHED.isdisjoint(after.values()),
    )


def unmet_need(step: ResolvedStep, status: Mapping[str, str]) -> str | None:
    """Returns the first step that this one needs and that will not complete."""
    return next(
        (need for need in step.needs if status[need] not in _UNFINISHED and status[need] != StepStatus.COMPLETED), None
    )


def _final_status(step: ResolvedStep, status: Mapping[str, str], optional: Mapping[str, bool]) -> str | None:
    """Returns skipped or blocked where a step cannot begin any more, else None."""
    needs = [(need, status[need]) for need in step.needs]
    if any(
        state in {StepStatus.BLOCKED, StepStatus.CANCELLED} or (state == StepStatus.FAILED and not optional[need])
        for need, state in needs
    ):
        return StepStatus.BLOCKED
    if any(state in {StepStatus.FAILED, StepStatus.SKIPPED} for _, state in needs):
        return StepStatus.SKIPPED if step.optional else StepStatus.BLOCKED
    return None
