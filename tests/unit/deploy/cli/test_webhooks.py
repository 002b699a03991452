import json

import pytest
from google.protobuf.duration_pb2 import Duration

from tests.unit.deploy.fake_backend import FakeBackend, command
from workflow_api.v1 import webhooks_pb2

WEBHOOK_ID = "wh_01m826nry571at0fvapjfa0yga"
URL = "https://example.org/hook"


@pytest.fixture
def webhook() -> webhooks_pb2.Webhook:
    webhook = webhooks_pb2.Webhook(
        webhook_id=WEBHOOK_ID,
        key_id="ak_0123456789ab",
        url=URL,
        state="paused",
        paused_reason="unreachable",
        events=[webhooks_pb2.WEBHOOK_EVENT_RUN_ENDED],
        deliveries_pending=3,
    )
    webhook.created_at.FromJsonString("2026-10-24T00:00:00Z")
    return webhook


def test_create_sends_every_property_and_shows_the_secret(backend: FakeBackend, webhook: webhooks_pb2.Webhook) -> None:
    backend.answers["CreateWebhook"] = webhooks_pb2.WebhookWithSecret(webhook=webhook, secret="whsec_x")
    made = command(
        *("webhooks", "create", "ak_0123456789ab", "--url", URL, "--event", "run.ended", "--event", "run.erased"),
        *("--description", "Orders", "--grpc", backend.address, "--json"),
    )
    assert made.code == 0, made.err
    assert backend.request("CreateWebhook") == webhooks_pb2.CreateWebhookRequest(
        key_id="ak_0123456789ab",
        url=URL,
        description="Orders",
        events=[webhooks_pb2.WEBHOOK_EVENT_RUN_ENDED, webhooks_pb2.WEBHOOK_EVENT_RUN_ERASED],
    )
    record = json.loads(made.out)
    assert (record["webhook_id"], record["secret"], record["events"]) == (WEBHOOK_ID, "whsec_x", ["run.ended"])


def test_an_unknown_event_is_refused_with_those_that_there_are(backend: FakeBackend) -> None:
    refused = command("webhooks", "update", WEBHOOK_ID, "--event", "run.started", "--grpc", backend.address)
    assert refused.code == 2
    assert "run.ended, run.waiting_for_approval, run.erased" in refused.err


def test_the_list_says_why_a_webhook_is_paused(backend: FakeBackend, webhook: webhooks_pb2.Webhook) -> None:
    backend.answers["ListWebhooks"] = webhooks_pb2.ListWebhooksResponse(items=[webhook])
    listed = command("webhooks", "list", "--grpc", backend.address)
    assert "paused (unreachable)" in listed.out
    assert not backend.request("ListWebhooks").HasField("key_id")


def test_rotate_sends_the_overlap(backend: FakeBackend, webhook: webhooks_pb2.Webhook) -> None:
    backend.answers["RotateWebhookSecret"] = webhooks_pb2.WebhookWithSecret(webhook=webhook, secret="whsec_y")
    rotated = command("webhooks", "rotate", WEBHOOK_ID, "--overlap", "3d", "--grpc", backend.address)
    assert "whsec_y" in rotated.out
    assert backend.request("RotateWebhookSecret").overlap == Duration(seconds=3 * 86_400)


def test_deliveries_show_the_last_answer(backend: FakeBackend) -> None:
    event = webhooks_pb2.WEBHOOK_EVENT_RUN_ENDED
    refused = webhooks_pb2.WebhookDelivery(message_id="msg_1", event=event, last_status=503, last_error="status")
    unreached = webhooks_pb2.WebhookDelivery(message_id="msg_2", event=event, last_error="timeout")
    backend.answers["ListWebhookDeliveries"] = webhooks_pb2.ListWebhookDeliveriesResponse(items=[refused, unreached])
    listed = command("webhooks", "deliveries", WEBHOOK_ID, "--grpc", backend.address)
    assert "503" in listed.out
    assert "timeout" in listed.out
