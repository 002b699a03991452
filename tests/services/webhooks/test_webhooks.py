"""Administration of webhooks. (docs/webhooks.md)"""

import pytest

from backend.services.webhooks.servicer import WebhooksServicer
from backend.settings import WebhookSettings
from tests.services.calls import Caller, RefusedError
from tests.services.webhooks.hooked import WebhookWorld
from workflow_api.v1 import audit_pb2, keys_pb2, webhooks_pb2

URL = "https://example.org/hooks/s3cr3t?token=t0k3n"


def _actions(hooked: WebhookWorld, webhook_id: str) -> list[str]:
    request = audit_pb2.ListAuditRecordsRequest(target=webhook_id)
    return [record.action for record in hooked.deployment("ListAuditRecords", request).items]


def test_a_webhook_is_created_changed_and_deleted(hooked: WebhookWorld) -> None:
    made = hooked.hook(URL, description="Orders")
    assert made.secret.startswith("whsec_")
    webhook_id = made.webhook.webhook_id
    assert hooked.show(webhook_id) == made.webhook
    assert len(made.webhook.events) == 5
    changed = hooked.webhooks(
        "UpdateWebhook",
        webhooks_pb2.UpdateWebhookRequest(
            webhook_id=webhook_id,
            url="https://example.org/other",
            events=webhooks_pb2.WebhookEventList(events=[webhooks_pb2.WEBHOOK_EVENT_RUN_ENDED]),
        ),
    )
    assert (changed.url, changed.description) == ("https://example.org/other", "Orders")
    assert list(changed.events) == [webhooks_pb2.WEBHOOK_EVENT_RUN_ENDED]
    hooked.finished()
    hooked.webhooks("DeleteWebhook", webhooks_pb2.DeleteWebhookRequest(webhook_id=webhook_id))
    with pytest.raises(RefusedError) as refused:
        hooked.show(webhook_id)
    assert refused.value.reason == "not_found"
    assert hooked.count("webhook_deliveries") == 0
    assert _actions(hooked, webhook_id) == ["webhook.deleted", "webhook.edited", "webhook.created"]


def test_no_answer_after_the_first_and_no_audit_record_has_a_secret(hooked: WebhookWorld) -> None:
    made = hooked.hook(URL)
    webhook_id = made.webhook.webhook_id
    request = webhooks_pb2.RotateWebhookSecretRequest(webhook_id=webhook_id)
    rotated = hooked.webhooks("RotateWebhookSecret", request)
    assert rotated.webhook.HasField("rotating_until")
    shown = str(hooked.show(webhook_id))
    trail = str(hooked.dump("audit_records"))
    for secret in (made.secret, rotated.secret):
        assert secret not in shown
        assert secret not in trail
    assert "s3cr3t" not in trail
    assert "t0k3n" not in trail


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org",
        "https://user:password@example.org",
        "https://example.org/#part",
        "https://",
        "https://[::1",
        "https://10.0.0.1/hook",
        "https://[::ffff:10.0.0.1]/hook",
        "https://169.254.169.254/latest",
        "https://0.0.0.0/hook",
        "https://127.1/hook",
        "https://2130706433/hook",
        "https://[::127.0.0.1]/hook",
        "https://[::ffff:0:127.0.0.1]/hook",
        "https://[64:ff9b::127.0.0.1]/hook",
        "https://[64:ff9b:1::127.0.0.1]/hook",
        "https://[2002:7f00:1::]/hook",
        "https://[fe80::1%25eth0]/hook",
        "https://[fec0::1]/hook",
    ],
)
def test_an_address_that_must_not_be_sent_to_is_refused(hooked: WebhookWorld, url: str) -> None:
    servicer = WebhooksServicer(hooked.services, WebhookSettings())
    strict = Caller(servicer, webhooks_pb2.DESCRIPTOR.services_by_name["WebhooksService"])
    with pytest.raises(RefusedError) as refused:
        strict("CreateWebhook", webhooks_pb2.CreateWebhookRequest(key_id=hooked.key, url=url))
    assert set(refused.value.problems) == {"url"}
    assert hooked.count("webhooks") == 0


def test_a_key_has_at_most_ten_webhooks(hooked: WebhookWorld) -> None:
    for _ in range(10):
        hooked.hook(URL)
    with pytest.raises(RefusedError) as refused:
        hooked.hook(URL)
    assert set(refused.value.problems) == {"key_id"}


def test_only_a_key_that_works_gets_a_webhook(hooked: WebhookWorld) -> None:
    with pytest.raises(RefusedError) as refused:
        hooked.hook(URL, key_id="ak_000000000000")
    assert refused.value.reason == "not_found"
    hooked.keys("RevokeKey", keys_pb2.RevokeKeyRequest(key_id=hooked.key))
    with pytest.raises(RefusedError) as refused:
        hooked.hook(URL)
    assert set(refused.value.problems) == {"key_id"}


def test_a_deleted_key_takes_its_webhooks_with_it(hooked: WebhookWorld) -> None:
    hooked.hook(URL)
    hooked.finished()
    hooked.keys("RevokeKey", keys_pb2.RevokeKeyRequest(key_id=hooked.key))
    hooked.keys("DeleteKey", keys_pb2.DeleteKeyRequest(key_id=hooked.key))
    assert hooked.count("webhooks") == 0
    assert hooked.count("webhook_deliveries") == 0


def test_lists_are_in_pages_newest_first(hooked: WebhookWorld) -> None:
    made = []
    for _ in range(3):
        made.append(hooked.hook(URL).webhook.webhook_id)
        hooked.clock.advance(seconds=1)
    request = webhooks_pb2.ListWebhooksRequest(key_id=hooked.key, page_size=2)
    first = hooked.webhooks("ListWebhooks", request)
    request.page_token = first.next_page_token
    second = hooked.webhooks("ListWebhooks", request)
    assert [each.webhook_id for each in (*first.items, *second.items)] == list(reversed(made))
    assert not second.HasField("next_page_token")
    other = webhooks_pb2.ListWebhooksRequest(page_token=first.next_page_token)
    with pytest.raises(RefusedError):
        hooked.webhooks("ListWebhooks", other)


def test_deliveries_are_in_pages_newest_first(hooked: WebhookWorld) -> None:
    webhook_id = hooked.hook(URL).webhook.webhook_id
    runs = [hooked.finished() for _ in range(3)]
    request = webhooks_pb2.ListWebhookDeliveriesRequest(webhook_id=webhook_id, page_size=2)
    first = hooked.webhooks("ListWebhookDeliveries", request)
    request.page_token = first.next_page_token
    second = hooked.webhooks("ListWebhookDeliveries", request)
    assert [each.run_id for each in (*first.items, *second.items)] == list(reversed(runs))
