"""OpenAPI webhooks: the messages that the service sends to receivers (docs/webhooks.md)."""

from collections.abc import Sequence
from typing import Any, Final

from contract.fields import spellings
from edge.openapi.comments import comments
from edge.openapi.samples import example_of
from workflow_api.v1.runs_pb2 import RunStatus
from workflow_api.v1.webhooks_pb2 import WebhookEvent

MESSAGE: Final = "WebhookMessage"
SCHEDULE_MESSAGE: Final = "ScheduleWebhookMessage"

_OF_SCHEDULES: Final = "schedule."
_FAILED: Final = "schedule.failed"

_HEADERS: Final = {
    "webhook-id": ("Id of the message, the same at every attempt: ignore ids that were processed.", "msg_"),
    "webhook-timestamp": ("Unix time of the attempt in seconds: refuse what is more than five minutes away.", ""),
    "webhook-signature": (
        "Signatures separated by blanks: `v1,` and the Base64 HMAC-SHA-256 of `<id>.<timestamp>.<body>` by the secret.",
        "v1,",
    ),
}
_SENT: Final = (
    "Sent to webhooks as Standard Webhooks defines it, at least once, again with pauses that grow "
    "for 72 hours. Verify the signature over the bytes of the body first."
)


def webhooks() -> dict[str, Any]:
    """Returns the OpenAPI webhooks, by the `type` of their messages."""
    enum = WebhookEvent.DESCRIPTOR
    return {
        name: {"post": _operation(name, comments()[f"{enum.full_name}.{enum.values_by_number[number].name}"])}
        for number, name in spellings(enum).items()
        if name
    }


def webhook_schemas() -> dict[str, Any]:
    """Returns the component schemas of the webhooks' bodies."""
    statuses = [text for text in spellings(RunStatus.DESCRIPTOR).values() if text]
    run: dict[str, Any] = {
        "run_id": {"type": "string", "description": "The run."},
        "workflow_id": {"type": "string", "description": "Its workflow."},
        "status": {"type": "string", "enum": statuses, "description": "The run's status at that time."},
        "client_reference": {"type": ["string", "null"], "description": "The reference that the caller gave."},
        "resumed_from": {"type": "string", "description": "The run that it took over from; absent without one."},
    }
    schedule: dict[str, Any] = {
        "workflow_id": {"type": "string", "description": "The workflow."},
        "schedule": {"type": "string", "description": "Name of the schedule, or id of the planned start."},
        "reason": {"type": "string", "description": "Why due times were skipped, or the code of the refusal."},
        "due_at": {"type": "string", "format": "date-time", "description": "The due time, of several the last."},
        "first_due_at": {"type": "string", "format": "date-time", "description": "The first of skipped due times."},
        "count": {"type": "integer", "minimum": 1, "description": "Skipped due times, counted to 10,000."},
        "message": {"type": "string", "description": "The refusal, for a person."},
    }
    of_run = "The run; everything else of it is read with the key."
    required = [name for name in run if name != "resumed_from"]
    always = ("workflow_id", "schedule", "reason", "due_at")
    return {
        MESSAGE: _message([name for name in _names() if not name.startswith(_OF_SCHEDULES)], of_run, run, required),
        SCHEDULE_MESSAGE: _message(
            [name for name in _names() if name.startswith(_OF_SCHEDULES)], "The decision.", schedule, always
        ),
    }


def _names() -> list[str]:
    return [text for text in spellings(WebhookEvent.DESCRIPTOR).values() if text]


def _message(names: Sequence[str], about: str, data: dict[str, Any], required: Sequence[str]) -> dict[str, Any]:
    message: dict[str, Any] = {
        "type": {"type": "string", "enum": list(names), "description": "The webhook."},
        "timestamp": {"type": "string", "format": "date-time", "description": "When it happened."},
        "data": {"type": "object", "description": about, "properties": data, "required": list(required)},
    }
    return {
        "type": "object",
        "description": "A message to the receiver of a webhook.",
        "properties": message,
        "required": list(message),
    }


def _operation(name: str, comment: str) -> dict[str, Any]:
    return {
        "operationId": "on" + "".join(map(str.capitalize, name.replace(".", "_").split("_"))),
        "summary": comment.rstrip("."),
        "description": f"{comment} {_SENT}",
        "security": [],
        "parameters": [_header(*described) for described in _HEADERS.items()],
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {"$ref": f"#/components/schemas/{_schema_of(name)}"},
                    "example": _example(name),
                }
            },
        },
        "responses": {
            "2XX": {"description": "Received; answer within ten seconds. The body is not read."},
            "410": {"description": "The receiver is gone: the webhook is paused."},
            "default": {"description": "Not received, redirects too: the message is sent again."},
        },
    }


def _header(name: str, described: tuple[str, str]) -> dict[str, Any]:
    text, begin = described
    schema = {"type": "string", **({"pattern": f"^{begin}"} if begin else {"pattern": "^[0-9]+$"})}
    return {"name": name, "in": "header", "required": True, "description": text, "schema": schema}


def _schema_of(name: str) -> str:
    return SCHEDULE_MESSAGE if name.startswith(_OF_SCHEDULES) else MESSAGE


def _example(name: str) -> dict[str, Any]:
    if name.startswith(_OF_SCHEDULES):
        due_at = "2026-09-24T10:15:00.000+00:00"
        refused = {"reason": "workflow_not_active", "message": "The workflow is not active."}
        skipped = {"reason": "in_flight", "count": 1, "first_due_at": due_at}
        told = refused if name == _FAILED else skipped
        data = {"workflow_id": example_of("workflow_id"), "schedule": "nightly", "due_at": due_at, **told}
        return {"type": name, "timestamp": "2026-09-24T10:15:30.123+00:00", "data": data}
    return {
        "type": name,
        "timestamp": "2026-09-24T10:15:30.123+00:00",
        "data": {
            "run_id": example_of("run_id"),
            "workflow_id": example_of("workflow_id"),
            "status": "waiting_for_approval" if "waiting" in name else "completed",
            "client_reference": example_of("client_reference"),
        },
    }
