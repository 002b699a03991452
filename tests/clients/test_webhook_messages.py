"""Messages to webhooks are verified before anything is done; tests/services/webhooks verifies real ones."""

import json
from datetime import UTC, datetime

import pytest
from standardwebhooks import Webhook

from workflow_api_client import WebhookRun, WebhookSchedule, WebhookVerificationError, verify_webhook

SECRET = "whsec_" + "c2VjcmV0LW9mLTMyLWJ5dGVzLWZvci10aGUtdGVzdHM="
OTHER = "whsec_" + "YW5vdGhlci1zZWNyZXQtZm9yLXRoZS10ZXN0cw=="
AT = 1_790_000_000
DUE_AT = datetime(2026, 9, 21, 13, tzinfo=UTC)
DATA = {"run_id": "run_1", "workflow_id": "wf_1", "status": "completed", "client_reference": None}
BODY = json.dumps({"type": "run.ended", "timestamp": "2026-09-21T14:13:20.000+00:00", "data": DATA})


def signed(secret: str = SECRET, body: str = BODY, at: int = AT) -> dict[str, str]:
    signature = Webhook(secret).sign("msg_1", datetime.fromtimestamp(at, UTC), body)
    return {"Webhook-Id": "msg_1", "WEBHOOK-TIMESTAMP": str(at), "webhook-signature": signature}


@pytest.mark.parametrize("now", [AT, AT - 300, AT + 300])
def test_a_signed_message_is_returned_with_its_run(now: int) -> None:
    message = verify_webhook(SECRET, signed(), BODY.encode(), now=now)
    assert (message.id, message.type) == ("msg_1", "run.ended")
    assert message.timestamp == datetime(2026, 9, 21, 14, 13, 20, tzinfo=UTC)
    assert message.data == WebhookRun("run_1", "wf_1", "completed", None, None)


@pytest.mark.parametrize(
    ("kind", "particulars", "expected"),
    [
        (
            "schedule.skipped",
            {"reason": "in_flight", "count": 2, "first_due_at": "2026-09-21T12:00:00.000+00:00"},
            WebhookSchedule("wf_1", "nightly", "in_flight", DUE_AT, datetime(2026, 9, 21, 12, tzinfo=UTC), 2, None),
        ),
        (
            "schedule.failed",
            {"reason": "workflow_not_active", "message": "It is not active."},
            WebhookSchedule("wf_1", "nightly", "workflow_not_active", DUE_AT, None, None, "It is not active."),
        ),
    ],
)
def test_a_message_of_a_schedule_is_returned_with_its_decision(
    kind: str, particulars: dict[str, object], expected: WebhookSchedule
) -> None:
    data = {"workflow_id": "wf_1", "schedule": "nightly", "due_at": DUE_AT.isoformat(), **particulars}
    body = json.dumps({"type": kind, "timestamp": "2026-09-21T14:13:20.000+00:00", "data": data})
    message = verify_webhook(SECRET, signed(body=body), body, now=AT)
    assert (message.type, message.data) == (kind, expected)


def test_one_of_several_secrets_or_signatures_is_enough() -> None:
    both = signed()["webhook-signature"] + " " + signed(OTHER)["webhook-signature"]
    assert verify_webhook(OTHER, {**signed(), "webhook-signature": f"v1a,x {both}"}, BODY, now=AT).id == "msg_1"
    assert verify_webhook([OTHER, SECRET], signed(), BODY, now=AT).id == "msg_1"


@pytest.mark.parametrize(
    ("headers", "body", "now"),
    [
        (signed(OTHER), BODY, AT),
        (signed(), BODY + " ", AT),
        (signed(), BODY, AT + 301),
        (signed(), BODY, AT - 301),
        ({**signed(), "WEBHOOK-TIMESTAMP": "soon"}, BODY, AT),
        ({**signed(), "Webhook-Id": "msg_2"}, BODY, AT),
        ({**signed(), "webhook-signature": "v1,ä"}, BODY, AT),
        ({**signed(), "webhook-signature": ""}, BODY, AT),
        ({}, BODY, AT),
        (signed(body="[]"), "[]", AT),
        (signed(body="{"), "{", AT),
    ],
)
def test_what_was_not_signed_or_at_another_time_is_refused(headers: dict[str, str], body: str, now: int) -> None:
    with pytest.raises(WebhookVerificationError):
        verify_webhook(SECRET, headers, body, now=now)


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_%%%"])
def test_a_secret_that_is_none_is_no_matter_of_the_message(secret: str) -> None:
    with pytest.raises(ValueError, match="whsec_"):
        verify_webhook(secret, signed(), BODY, now=AT)
