"""Plans a workflow's graph: from the statuses of its steps, which may begin and which never will. No I/O.

A step begins when every step that it needs has ended with a status that it accepts, by default `completed`. Behind an
optional step that failed, optional steps are skipped, and required ones blocked: they cannot work without what they
need, so the run cannot go on. Behind a step that its condition skipped, steps are skipped, once all that they need has
ended and nothing of it blocks them. A failed step that is neither optional nor accepted by every step that needs it
fails the run, and steps behind it are blocked.

Steps of `on_failure` and `always` have plans of their own: they need nothing, and fail nothing.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from backend.common.states import STEP_UNFINISHED, StepStatus
from backend.services.workflows.resolved_workflow import APPROVAL, Phase, ResolvedStep

_UNFINISHED: Final = frozenset(STEP_UNFINISHED)

Status = Mapping[str, str]
"""The statuses of all steps, by handle."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The actions that follow from the steps' statuses; every tuple is in the order of the definition.

    Attributes:
        evaluate: Steps that may begin if their condition is true, which is not known yet.
        begin: Steps of agents and workflows that may begin, an agent's once there is a slot.
        request: Approval steps whose approval may be requested.
        skip: Pending steps that will never begin, and that the run completes without.
        block: Pending steps that will never begin, and that the run cannot do without.
        failed: The first step whose failure fails the run, if any.
        stuck: The first step that is blocked though no failure fails the run, if any: the run cannot go on.
        done: Whether no step is left to begin, to finish or to be decided.
    """

    evaluate: tuple[str, ...]
    begin: tuple[str, ...]
    request: tuple[str, ...]
    skip: tuple[str, ...]
    block: tuple[str, ...]
    failed: str | None
    stuck: str | None
    done: bool


def plan(
    steps: Sequence[ResolvedStep],
    status: Status,
    conditions_met: AbstractSet[str] = frozenset(),
    phase: Phase = Phase.MAIN,
) -> Plan:
    """Returns the plan of a phase for these statuses; `conditions_met` are steps whose condition is true."""
    of_phase = {step.step: step for step in steps if step.phase is phase}
    after = {name: status[name] for name in of_phase}
    changed = True
    while changed:
        changed = False
        for name, step in of_phase.items():
            if after[name] == StepStatus.PENDING and (final := _final_status(step, after, of_phase)) is not None:
                after[name] = final
                changed = True
    pending = [step for name, step in of_phase.items() if status[name] == StepStatus.PENDING]
    ready = [
        step
        for step in pending
        if after[step.step] == StepStatus.PENDING and all(after[need] in step.accept for need in step.needs)
    ]
    may_begin = [step for step in ready if step.when is None or step.step in conditions_met]
    failed = next(
        (name for name, step in of_phase.items() if after[name] == StepStatus.FAILED and fails_run(step, steps)), None
    )
    blocked = next((name for name in of_phase if after[name] == StepStatus.BLOCKED), None)
    return Plan(
        evaluate=tuple(step.step for step in ready if step not in may_begin),
        begin=tuple(step.step for step in may_begin if step.kind != APPROVAL),
        request=tuple(step.step for step in may_begin if step.kind == APPROVAL),
        skip=tuple(step.step for step in pending if after[step.step] == StepStatus.SKIPPED),
        block=tuple(step.step for step in pending if after[step.step] == StepStatus.BLOCKED),
        failed=failed,
        stuck=None if failed else blocked,
        done=_UNFINISHED.isdisjoint(after.values()),
    )


def fails_run(step: ResolvedStep, steps: Sequence[ResolvedStep]) -> bool:
    """Returns whether the failure of a step fails its run: the step is required, and a dependent does not accept it."""
    if step.optional:
        return False
    dependents = [other for other in steps if step.step in other.needs]
    return not dependents or any(StepStatus.FAILED not in other.accept for other in dependents)


def unmet_need(step: ResolvedStep, status: Status) -> str | None:
    """Returns the first needed step that has ended with a status which `step` does not accept, or None."""
    return next(
        (need for need in step.needs if status[need] not in _UNFINISHED and status[need] not in step.accept), None
    )


def without_failed_need(steps: Mapping[str, ResolvedStep], status: Status) -> set[str]:
    """Returns the steps that need a failed step, directly or through steps that were skipped because of it."""
    found: set[str] = set()
    grown = True
    while grown:
        grown = False
        for name, step in steps.items():
            unmet = (need for need in step.needs if status[need] not in step.accept)
            if name not in found and any(
                status[need] == StepStatus.FAILED or (status[need] == StepStatus.SKIPPED and need in found)
                for need in unmet
            ):
                found.add(name)
                grown = True
    return found


def _final_status(step: ResolvedStep, status: Status, steps: Mapping[str, ResolvedStep]) -> str | None:
    """Returns skipped or blocked where a step cannot begin any more, else None."""
    unmet = {
        need: status[need] for need in step.needs if status[need] not in _UNFINISHED and status[need] not in step.accept
    }
    if not unmet:
        return None
    if any(
        state in {StepStatus.BLOCKED, StepStatus.CANCELLED} or (state == StepStatus.FAILED and not steps[need].optional)
        for need, state in unmet.items()
    ):
        return StepStatus.BLOCKED
    if not step.optional and step.step in without_failed_need(steps, status):
        return StepStatus.BLOCKED
    # A need that is still to end may block the step: the order in which needs end must not decide.
    return None if any(status[need] in _UNFINISHED for need in step.needs) else StepStatus.SKIPPED
