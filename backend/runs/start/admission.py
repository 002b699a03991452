"""The checks of a start in their order, as a table; the first that refuses decides (contract 12.6)."""

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import Any, Final, NamedTuple, TypeVar

from backend.clock import seconds_to_next_utc_day
from backend.errors import ApiError
from backend.runs.start.parsed_start import ParsedStart
from backend.runs.start.sql import FactsRow
from backend.runs.start.uploaded import UploadedInputs, with_uploads
from backend.workflows.access import read_access
from backend.workflows.parameters import effective_parameters
from backend.workflows.pii_policy import Policy, apply_override
from backend.workflows.terms import WorkflowTerms
from workflow_api.v1 import errors_pb2

T = TypeVar("T")


class Inputs(NamedTuple):
    """The values that a start has under one version's terms, or the refusals of those that it cannot have."""

    terms: WorkflowTerms
    parameters: dict[str, Any] | ApiError
    policy: Policy | ApiError


class StartContext(NamedTuple):
    """Everything that a start depends on; `facts` is a row of `sql.facts`."""

    start: ParsedStart
    facts: FactsRow
    terms: WorkflowTerms | None
    inputs: Inputs | None


def judge_inputs(
    start: ParsedStart, terms: WorkflowTerms, providers: AbstractSet[str], uploaded: UploadedInputs | None = None
) -> Inputs:
    """Judges parameters and policy, the costly part, which needs no transaction; `providers` as in `apply_override`."""

    def parameters() -> dict[str, Any]:
        if uploaded is not None:
            return with_uploads(terms, start.parameters, uploaded)
        return effective_parameters(terms.parameters, start.parameters)

    return Inputs(
        terms,
        _value_or_refusal(parameters),
        _value_or_refusal(lambda: apply_override(terms.pii_policy or {}, start.policy_override, providers)),
    )


def first_refusal(context: StartContext) -> ApiError | None:
    """Returns the refusal of the first check that refuses the start, or None."""
    for check in CHECKS:
        refusal = check(context)
        if refusal is not None:
            return refusal
    return None


def _workflow_accessible(context: StartContext) -> ApiError | None:
    access = read_access(context.facts.access_mode, context.facts.access_workflow_ids)
    if context.terms is None or not access.holds(context.start.workflow_id):
        return ApiError(errors_pb2.ERROR_REASON_WORKFLOW_NOT_FOUND)
    return None


def _startable(context: StartContext) -> ApiError | None:
    """Refuses a workflow that is not active, then an unknown version, then a version that is not ready."""
    assert context.terms is not None
    return context.terms.refusal()


def _licensed(context: StartContext) -> ApiError | None:
    facts = context.facts
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


def _parameters_fit(context: StartContext) -> ApiError | None:
    assert context.inputs is not None
    return context.inputs.parameters if isinstance(context.inputs.parameters, ApiError) else None


def _policy_tightens(context: StartContext) -> ApiError | None:
    assert context.inputs is not None
    return context.inputs.policy if isinstance(context.inputs.policy, ApiError) else None


def _slot_free(context: StartContext) -> ApiError | None:
    active, most = context.facts.active_runs, context.facts.max_concurrent_runs
    if most is None or active < most:
        return None
    # They differ where the limit was lowered below what was in flight.
    count = "1 run is" if active == 1 else f"{active} runs are"
    message = f"{count} in flight and the limit of this key is {most}; wait for one to finish."
    return ApiError(errors_pb2.ERROR_REASON_TOO_MANY_ACTIVE_RUNS, message)


def _quota_left(context: StartContext) -> ApiError | None:
    quota = context.facts.daily_run_quota
    if quota is None or (context.facts.runs_started or 0) < quota:
        return None
    return ApiError(
        errors_pb2.ERROR_REASON_QUOTA_EXCEEDED,
        f"The daily quota of {quota} runs is used up; it resets at 00:00 UTC.",
        retry_after=seconds_to_next_utc_day(context.start.at),
    )


CHECKS: Final[tuple[Callable[[StartContext], ApiError | None], ...]] = (
    _workflow_accessible,
    _startable,
    _licensed,
    _parameters_fit,
    _policy_tightens,
    _slot_free,
    _quota_left,
)


def _value_or_refusal(judge: Callable[[], T]) -> T | ApiError:
    try:
        return judge()
    except ApiError as refusal:
        return refusal
