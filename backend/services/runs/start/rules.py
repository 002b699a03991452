"""Rules of a start: parses a request, validates its inputs, runs ordered checks; the first refusal wins (12.6)."""

import hashlib
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from backend.common import json_text
from backend.common.clock import DAY_MS, is_recent, seconds_to_next_utc_day
from backend.common.errors import ApiError, invalid
from backend.common.json_text import JsonObject
from backend.common.money import dollars
from backend.services.runs import messages
from backend.services.runs.start.sql import FactsRow, RecordRow
from backend.services.runs.start.uploaded import UploadedInputs, with_uploads
from backend.services.workflows.parameters import effective_parameters
from backend.services.workflows.pii_policy import Policy, apply_override
from backend.services.workflows.resolved_workflow import ResolvedWorkflow
from backend.services.workflows.rules import read_access
from backend.storage.database import Tx
from telemetry import tracing
from workflow_api.v1 import errors_pb2, runs_pb2

RECORD_LIFE_MS: Final = DAY_MS
"""Milliseconds that an idempotency key stays bound (contract 12.13)."""

_JSON_FIELDS = frozenset({"parameters", "pii_policy_override"})
_BODY = _JSON_FIELDS | {"input_text", "client_reference", "version", "upload_id"}


class Resumption(NamedTuple):
    """The ended run that a new run resumes, and the handles of the steps that the new run reuses.

    `again` allows that another run has resumed it already. `items_reused` are incomplete fan-outs whose completed items
    are reused. `interrupted` says that the service resumes a run that lost its worker.
    """

    run_id: str
    reused: AbstractSet[str]
    again: bool
    items_reused: AbstractSet[str] = frozenset()
    interrupted: bool = False


NO_RESUMPTION: Final = Resumption("", frozenset(), again=False)


class ScheduledStart(NamedTuple):
    """The schedule, or planned start, that starts a run.

    `admit` is called with the run's id in the transaction that adds the run; an exception rolls the start back.
    """

    schedule: str
    due_at: int | None
    admit: Callable[[Tx, str], None]


class ParentStep(NamedTuple):
    """The run, the step and the index of the item that start a child run, and the child's depth."""

    parent_run_id: str
    parent_step: str
    parent_item: int | None
    depth: int


class ParsedStart(NamedTuple):
    """One call to start a run; `key_id` is empty for an internal caller, `upload_id` without uploaded files.

    `fingerprint` is a digest of workflow id and canonical body: it does not depend on spelling, and empty parameters,
    labels or override equal absent ones (contract 12.8).
    """

    key_id: str
    workflow_id: str
    idempotency_key: str
    fingerprint: str
    version: int | None
    parameters: JsonObject
    policy_override: object
    input_text: str | None
    client_reference: str | None
    labels: str
    triggered_by: str
    at: int
    upload_id: str = ""
    trace: tuple[str, str | None] | None = None
    """`traceparent` and `tracestate` of the span that starts the run, if it is recorded."""
    resumption: Resumption | None = None
    scheduled: ScheduledStart | None = None
    parent: ParentStep | None = None


def claim_of(key_id: str, idempotency_key: str) -> str:
    """Returns the claim name by which one start at a time decides on an idempotency key of an API key."""
    return f"start {key_id} {idempotency_key}"


def is_bound(record: FactsRow | RecordRow, at: int) -> bool:
    """Returns whether an idempotency record is still valid: for 24 h from its first use."""
    return record.first_used_at is not None and is_recent(record.first_used_at, at, RECORD_LIFE_MS)


def earlier_run(record: FactsRow | RecordRow, fingerprint: str) -> str | ApiError | None:
    """Returns the run of an earlier start from the idempotency record.

    Returns None if that start was refused, and an error if the record has another fingerprint (contract 12.9).
    """
    if record.fingerprint != fingerprint:
        return ApiError(errors_pb2.ERROR_REASON_IDEMPOTENCY_CONFLICT)
    return record.run_id


def parse_start(request: runs_pb2.StartRunRequest, key_id: str | None, at: int) -> ParsedStart:
    """Parses a start request; `key_id` is None for an internal caller, `at` is the time of the start.

    Raises:
        ApiError: `invalid_request` for text that is no JSON, including NaN, Infinity and lone surrogates.
    """
    body = {field.name: value for field, value in request.ListFields() if field.name in _BODY}
    given = request.labels
    labels = {name: given[name] for name in sorted(given)} if given else {}
    spelled = {**body, "labels": labels}
    for name in _JSON_FIELDS & body.keys():
        try:
            body[name] = json_text.parse(body[name])
            spelled[name] = json_text.canonical(body[name])
            spelled[name].encode()
        except (ValueError, RecursionError):
            raise invalid(name, "must be JSON") from None
    for name in _JSON_FIELDS:
        # Other empty values have the wrong type, and are refused later.
        if body.get(name) in ({}, None):
            spelled.pop(name, None)
    whole = json_text.canonical([request.workflow_id, spelled])
    trigger = "api_key" if key_id else messages.trigger_name(request.triggered_by or runs_pb2.TRIGGERED_BY_CONSOLE)
    return ParsedStart(
        key_id=key_id or "",
        workflow_id=request.workflow_id,
        idempotency_key=request.idempotency_key,
        fingerprint=hashlib.sha256(whole.encode()).hexdigest(),
        version=body.get("version"),
        parameters=body.get("parameters", {}),
        policy_override=body.get("pii_policy_override"),
        input_text=body.get("input_text"),
        client_reference=body.get("client_reference"),
        labels=json_text.canonical(labels) if labels else "{}",
        triggered_by=trigger,
        at=at,
        upload_id=request.upload_id,
        trace=tracing.recorded(),
    )


class ValidatedInputs(NamedTuple):
    """Validated parameters and PII policy of a start for one workflow version; an ApiError where invalid."""

    workflow: ResolvedWorkflow
    parameters: JsonObject | ApiError
    policy: Policy | ApiError


class StartContext(NamedTuple):
    """Everything that the checks of a start read; `facts` is a row of `sql.facts`."""

    start: ParsedStart
    facts: FactsRow
    workflow: ResolvedWorkflow | None
    inputs: ValidatedInputs | None


def validate_inputs(
    start: ParsedStart, workflow: ResolvedWorkflow, providers: AbstractSet[str], uploaded: UploadedInputs | None = None
) -> ValidatedInputs:
    """Validates parameters and policy override of a start; costly, so it runs outside of the transaction.

    The workflow version can be started; `providers` are as in `apply_override`.
    """
    parameters: JsonObject | ApiError
    policy: Policy | ApiError = workflow.pii_policy or {}
    try:
        if uploaded is None:
            parameters = effective_parameters(workflow.parameters, start.parameters)
        else:
            parameters = with_uploads(workflow, start.parameters, uploaded)
    except ApiError as refusal:
        parameters = refusal
    if start.policy_override is not None:
        try:
            policy = apply_override(workflow.pii_policy or {}, start.policy_override, providers)
        except ApiError as refusal:
            policy = refusal
    return ValidatedInputs(workflow, parameters, policy)


def first_refusal(context: StartContext) -> ApiError | None:
    """Returns the refusal of the first check that refuses the start, or None."""
    for check in CHECKS:
        refusal = check(context)
        if refusal is not None:
            return refusal
    return None


def _workflow_accessible(context: StartContext) -> ApiError | None:
    access = read_access(context.facts.access_mode, context.facts.access_workflow_ids)
    if context.workflow is None or not access.allows(context.start.workflow_id):
        return ApiError(errors_pb2.ERROR_REASON_WORKFLOW_NOT_FOUND)
    return None


def _startable(context: StartContext) -> ApiError | None:
    """Refuses a workflow that is not active, then an unknown version, then a version that is not ready."""
    workflow, inputs = context.workflow, context.inputs
    assert workflow is not None
    return None if inputs is not None and inputs.workflow is workflow else workflow.refusal()


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
    # The numbers differ if the limit was lowered below the number of runs in flight.
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


def _tokens_left(context: StartContext) -> ApiError | None:
    limit, used = context.facts.daily_tokens, context.facts.tokens_used
    return None if limit is None or used < limit else _used_up(context, f"{limit:,} tokens", f"{used:,}")


def _cost_left(context: StartContext) -> ApiError | None:
    limit, used = context.facts.daily_cost_microusd, context.facts.cost_used_microusd
    if limit is None or used < limit:
        return None
    return _used_up(context, f"{dollars(limit)} US dollars of models", dollars(used))


def _used_up(context: StartContext, quota: str, used: str) -> ApiError:
    return ApiError(
        errors_pb2.ERROR_REASON_QUOTA_EXCEEDED,
        f"The daily quota of {quota} is used up ({used}); it resets at 00:00 UTC.",
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
    _tokens_left,
    _cost_left,
)
