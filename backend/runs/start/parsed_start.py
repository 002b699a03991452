"""The request to start a run, parsed once, before any transaction."""

import hashlib
from typing import Any, NamedTuple

from backend import json_text
from backend.errors import invalid
from backend.runs import messages
from telemetry import tracing
from workflow_api.v1 import runs_pb2

_JSON_FIELDS = frozenset({"parameters", "pii_policy_override"})
_BODY = _JSON_FIELDS | {"input_text", "client_reference", "version", "upload_id"}


class ParsedStart(NamedTuple):
    """One call to start a run; `key_id` is empty for an internal caller, `upload_id` without uploaded files.

    `fingerprint` is a digest of workflow id and canonical body: bodies that hold the same values have the same one,
    whatever their spelling, and so have bodies without parameters, labels or override and with empty ones (contract
    12.8).
    """

    key_id: str
    workflow_id: str
    idempotency_key: str
    fingerprint: str
    version: int | None
    parameters: dict[str, Any]
    policy_override: Any
    input_text: str | None
    client_reference: str | None
    labels: str
    triggered_by: str
    at: int
    upload_id: str = ""
    trace: tuple[str, str | None] | None = None
    """`traceparent` and `tracestate` of the span that starts the run, where that is recorded."""

    @property
    def claim(self) -> str:
        """The database claim of a start while it decides on its idempotency key."""
        return claim_of(self.key_id, self.idempotency_key)


def claim_of(key_id: str, idempotency_key: str) -> str:
    """Returns the claim of the starts that share an idempotency key of one API key."""
    return f"start {key_id} {idempotency_key}"


def parse_start(request: runs_pb2.StartRunRequest, key_id: str | None, at: int) -> ParsedStart:
    """Returns a parsed request.

    Raises:
        ApiError: `invalid_request`, for what is not JSON although Python reads it: NaN, Infinity, lone surrogates.
    """
    body = {field.name: value for field, value in request.ListFields() if field.name in _BODY}
    given = request.labels
    labels = {name: given[name] for name in sorted(given)}
    spelled = {**body, "labels": labels}
    for name in _JSON_FIELDS & body.keys():
        try:
            body[name] = json_text.parse(body[name])
            spelled[name] = json_text.canonical(body[name])
            spelled[name].encode()
        except (ValueError, RecursionError):
            raise invalid(name, "must be JSON") from None
    for name in _JSON_FIELDS:
        # Only what has the type that the field asks for: another value is refused.
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
        labels=json_text.canonical(labels),
        triggered_by=trigger,
        at=at,
        upload_id=request.upload_id,
        trace=tracing.recorded(),
    )
