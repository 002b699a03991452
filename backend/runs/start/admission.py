"""The order of checks inside a start, as a table; the first that refuses decides. (DECISIONS.md, 4)."""

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from backend.clock import seconds_to_next_utc_day
from backend.errors import ApiError
from backend.runs.start.parsed_start import ParsedStart
from backend.runs.start.sql import FactsRow
from backend.workflows.access import read_access
from backend.workflows.parameters import effective_parameters
from backend.workflows.pii_policy import Policy, apply_override
from backend.workflows.terms import WorkflowTerms
from workflow_api.v1 import errors_pb2

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a start comes to under one version's terms: its effective values, or why there are none."""

    terms: WorkflowTerms
    parameters: dict[str, Any] | ApiError
    policy: Policy | ApiError


@dataclass(frozen=True, slots=True)
class StartContext:
    """All that a start is judged by; `facts` is the row of `sql.facts`."""

    parsed_start: ParsedStart
    facts: FactsRow
    terms: WorkflowTerms | None
    inputs: Inputs | None


def judge_inputs(parsed_start: ParsedStart, terms: WorkflowTerms, providers: AbstractSet[str]) -> Inputs:
    """Judges parameters and policy: the costly part, which needs no transaction. `providers` as `apply_override`."""
    return Inputs(
        terms,
        _outcome(lambda: effective_parameters(terms.parameters, parsed_start.parameters)),
        _outcome(lambda: apply_override(terms.pii_policy or {}, parsed_start.policy_override, providers)),
    )


def first_refusal(start_context: StartContext) -> ApiError | None:
    """Why the start is refused, or None."""
    for check in CHECKS:
        refusal = check(start_context)
        if refusal is not None:
            return refusal
    return None


def with_one_left(facts: FactsRow) -> FactsRow:
    """The facts of a key with its last slot and the last unit of its quota free.

    Who is admitted under these is admitted with more of either left.
    """
    assert facts.max_concurrent_runs is not None
    assert facts.daily_run_quota is not None
    return facts._replace(active_runs=facts.max_concurrent_runs - 1, runs_started=facts.daily_run_quota - 1)


def _in_reach(start_context: StartContext) -> ApiError | None:
    reach = read_access(start_context.facts.access_mode, start_context.facts.access_workflow_ids)
    if start_context.terms is None or not reach.holds(start_context.parsed_start.workflow_id):
        return ApiError(errors_pb2.ERROR_REASON_WORKFLOW_NOT_FOUND)
    return None


def _startable(start_context: StartContext) -> ApiError | None:
    """Active, of an existing version, and ready, in this order."""
    assert start_context.terms is not None
    return start_context.terms.refusal()


def _licensed(start_context: StartContext) -> ApiError | None:
    facts = start_context.facts
    if facts.licence_state == "active":
        return None
    details = {
        "state": facts.licence_state,
        "reason": facts.licence_reason,
        "enforcement_status": facts.licence_enforcement_status,
        "license_id": facts.license_id,
    }
    return ApiError(
        errors_pb2.ERROR_REASON_LICENSE_UNAVAILABLE,
        metadata={name: value for name, value in details.items() if value is not None},
    )


def _parameters_fit(start_context: StartContext) -> ApiError | None:
    assert start_context.inputs is not None
    return start_context.inputs.parameters if isinstance(start_context.inputs.parameters, ApiError) else None


def _policy_tightens(start_context: StartContext) -> ApiError | None:
    assert start_context.inputs is not None
    return start_context.inputs.policy if isinstance(start_context.inputs.policy, ApiError) else None


def _slot_free(start_context: StartContext) -> ApiError | None:
    active, most = start_context.facts.active_runs, start_context.facts.max_concurrent_runs
    if most is None or active < most:
        return None
    # They differ where the limit was lowered below what was in flight.
    count = "1 run is" if active == 1 else f"{active} runs are"
    message = f"{count} in flight and the limit of this key is {most}; wait for one to finish."
    return ApiError(errors_pb2.ERROR_REASON_TOO_MANY_ACTIVE_RUNS, message)


def _quota_left(start_context: StartContext) -> ApiError | None:
    quota = start_context.facts.daily_run_quota
    if quota is None or (start_context.facts.runs_started or 0) < quota:
        return None
    return ApiError(
        errors_pb2.ERROR_REASON_QUOTA_EXCEEDED,
        f"The daily quota of {quota} runs is used up; it resets at 00:00 UTC.",
        retry_after=seconds_to_next_utc_day(start_context.parsed_start.at),
    )


CHECKS: Final[tuple[Callable[[StartContext], ApiError | None], ...]] = (
    _in_reach,
    _startable,
    _licensed,
    _parameters_fit,
    _policy_tightens,
    _slot_free,
    _quota_left,
)


def _outcome(judge: Callable[[], T]) -> T | ApiError:
    try:
        return judge()
    except ApiError as refusal:
        return refusal
