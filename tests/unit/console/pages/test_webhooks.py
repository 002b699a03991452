from typing import Any

import pytest

from console.pages import webhooks
from console.routes import PAGES
from console.visit import ADMINISTRATORS, Page, Redirect
from contract.refusals import Refusal
from contract.times import to_timestamp
from tests.unit.console.recorded_services import KEY_ID, RecordedServices, answered, invalid, pages_in, viewed
from tests.unit.console.rendered import Fields, page_of
from workflow_api.v1 import webhooks_pb2

LIST = "/keys/{key_id}/webhooks"
ONE = f"{LIST}/{{webhook_id}}"
WEBHOOK_ID = "wh_01m826nry571at0fvapjfa0yga"
NAMES = {"key_id": KEY_ID, "webhook_id": WEBHOOK_ID}
FORM = {"url": ["https://example.org/<b>"], "description": ["Orders"], "events": ["run.ended", "run.erased"]}


def webhook(**fields: Any) -> webhooks_pb2.Webhook:
    given: dict[str, Any] = {
        "webhook_id": WEBHOOK_ID,
        "key_id": KEY_ID,
        "url": "https://example.org/hook",
        "events": [webhooks_pb2.WEBHOOK_EVENT_RUN_ENDED],
        "state": "active",
        "created_at": to_timestamp(1_000_000_000_000),
    }
    return webhooks_pb2.Webhook(**(given | fields))


def services(shown: webhooks_pb2.Webhook | None = None, **answers: Any) -> RecordedServices:
    delivery = webhooks_pb2.WebhookDelivery(
        message_id="msg_1",
        event=webhooks_pb2.WEBHOOK_EVENT_RUN_ENDED,
        run_id="run_1",
        state=webhooks_pb2.WEBHOOK_DELIVERY_STATE_PENDING,
        last_error="timeout",
        attempts=3,
        occurred_at=to_timestamp(1_000_000_000_000),
    )
    return RecordedServices(
        {
            "WebhooksService/GetWebhook": shown or webhook(),
            "WebhooksService/ListWebhooks": webhooks_pb2.ListWebhooksResponse(items=[shown or webhook()]),
            "WebhooksService/ListWebhookDeliveries": webhooks_pb2.ListWebhookDeliveriesResponse(items=[delivery]),
            **{f"WebhooksService/{name}": answer for name, answer in answers.items()},
        }
    )


def test_only_administrators_see_webhooks() -> None:
    assert all(page.roles == ADMINISTRATORS for page in pages_in(webhooks))


def test_the_list_links_each_webhook_and_a_new_one_begins_with_all_events() -> None:
    page = page_of(viewed(PAGES, "GET", LIST, services(), names=NAMES))
    assert f'href="/keys/{KEY_ID}/webhooks/{WEBHOOK_ID}"' in page
    assert page.count("checked") == 5


def test_texts_of_a_webhook_are_escaped() -> None:
    hostile = '"><script>alert(1)</script>'
    shown = webhook(url=hostile, description=hostile)
    for path in (LIST, ONE):
        assert "<script>alert" not in page_of(viewed(PAGES, "GET", path, services(shown), names=NAMES))


def test_a_paused_webhook_says_why_and_can_be_resumed() -> None:
    page = page_of(viewed(PAGES, "GET", ONE, services(webhook(state="paused", paused_reason="gone")), names=NAMES))
    assert "410" in page
    assert "/resume" in page
    assert "/pause" not in page


def test_deliveries_show_the_last_answer_and_can_be_repeated() -> None:
    page = page_of(viewed(PAGES, "GET", ONE, services(), names=NAMES))
    assert "timeout" in page
    assert 'value="msg_1"' in page


def test_the_secret_is_in_the_answer_to_the_form() -> None:
    made = webhooks_pb2.WebhookWithSecret(webhook=webhook(), secret="whsec_x")
    asked = services(CreateWebhook=made)
    page = page_of(viewed(PAGES, "POST", LIST, asked, names=NAMES, form=FORM))
    assert "whsec_x" in page


def test_problems_are_shown_with_what_was_typed() -> None:
    refused = services(CreateWebhook=invalid(("url", "must be public")))
    view = viewed(PAGES, "POST", LIST, refused, names=NAMES, form=FORM)
    page = page_of(view)
    assert view.status == 400
    assert "must be public" in page
    assert Fields(page).texts["url"] == FORM["url"][0]
    without_events = viewed(PAGES, "POST", LIST, services(), names=NAMES, form={**FORM, "events": []})
    assert "must name at least one" in page_of(without_events)


@pytest.mark.parametrize(
    ("action", "rpc", "answer"),
    [
        ("/pause", "PauseWebhook", webhook(state="paused")),
        ("/resume", "ResumeWebhook", webhook()),
        ("/delete", "DeleteWebhook", webhooks_pb2.DeleteWebhookResponse()),
        ("/redeliver", "RedeliverWebhookMessage", webhooks_pb2.WebhookDelivery()),
        ("", "UpdateWebhook", webhook()),
    ],
)
def test_each_form_calls_its_rpc(action: str, rpc: str, answer: Any) -> None:
    asked = services(**{rpc: answer})
    form = {**FORM, "message_id": ["msg_1"]}
    assert isinstance(answered(PAGES, "POST", ONE + action, asked, names=NAMES, form=form), Redirect)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if "{webhook_id}" in page.path], ids=lambda page: page.handler.__name__
)
def test_a_webhook_is_neither_shown_nor_changed_under_the_address_of_another_key(page: Page) -> None:
    asked = services()
    form = {**FORM, "message_id": ["msg_1"], "overlap_hours": ["24"]}
    with pytest.raises(Refusal) as refused:
        answered(PAGES, page.method, page.path, asked, names={**NAMES, "key_id": "ak_other"}, form=form)
    assert refused.value.status == 404
    assert [rpc for rpc, _ in asked.asked] == ["WebhooksService/GetWebhook"]


def test_a_message_of_a_schedule_leads_to_no_run() -> None:
    delivery = webhooks_pb2.WebhookDelivery(
        message_id="msg_1",
        event=webhooks_pb2.WEBHOOK_EVENT_SCHEDULE_SKIPPED,
        state=webhooks_pb2.WEBHOOK_DELIVERY_STATE_PENDING,
        occurred_at=to_timestamp(1_000_000_000_000),
    )
    backend = services(ListWebhookDeliveries=webhooks_pb2.ListWebhookDeliveriesResponse(items=[delivery]))
    page = page_of(viewed(PAGES, "GET", ONE, backend, names=NAMES))
    assert "schedule.skipped" in page
    assert 'href="/runs/"' not in page
