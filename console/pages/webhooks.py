"""Pages of a key's webhooks: the list, a webhook with its deliveries, and its changes (docs/webhooks.md)."""

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote, urlencode

from console.forms.urlencoded import Problems, invalid, problems_of, whole_number
from console.paging import all_items
from console.rendering import formatting
from console.visit import PageResult, Redirect, View, Visit
from contract.fields import OVERLAP_HOURS, spellings
from contract.refusals import Refusal
from contract.times import duration_of
from workflow_api.v1 import webhooks_pb2
from workflow_api.v1.options_pb2 import TIME_UNIT_HOURS

EVENTS: Final = {
    text: webhooks_pb2.WebhookEvent.ValueType(number)
    for number, text in spellings(webhooks_pb2.WebhookEvent.DESCRIPTOR).items()
    if text
}
_EVENT_WORDS: Final = {
    "run.ended": "A run ended",
    "run.waiting_for_approval": "A run waits for an approval",
    "approval.reminded": "An approval still waits",
    "approval.expired": "The deadline of an approval passed",
    "run.erased": "A run's data was erased",
    "schedule.skipped": "A schedule skipped due times of a workflow that the key may start",
    "schedule.failed": "A start by a schedule of such a workflow was refused",
}
_EVENT_NAMES: Final = {number: text for text, number in EVENTS.items()}
_STATES: Final = {
    webhooks_pb2.WEBHOOK_DELIVERY_STATE_PENDING: ("Pending", "busy"),
    webhooks_pb2.WEBHOOK_DELIVERY_STATE_DELIVERED: ("Delivered", "good"),
    webhooks_pb2.WEBHOOK_DELIVERY_STATE_FAILED: ("Failed", "bad"),
}
_PAUSED: Final = {
    "requested": "An administrator paused it.",
    "unreachable": "The service paused it: nothing arrived for 72 hours.",
    "gone": "The service paused it: the receiver answered 410, gone for good.",
}
REPEATED_FIELDS: Final = frozenset({"events"})
_FIELDS: Final = frozenset({"url", "description", "events"})
_PAGE: Final = 100
_NOTHING_WRONG: Final[Problems] = {}


async def list_webhooks(visit: Visit) -> PageResult:
    """Lists the webhooks of a key, with the form of a new one."""
    return await _list(visit)


async def create(visit: Visit) -> PageResult:
    """Creates a webhook; only this response shows its secret."""
    try:
        request = webhooks_pb2.CreateWebhookRequest(
            key_id=visit.path["key_id"],
            url=visit.sent("url"),
            description=visit.sent("description"),
            events=_sent_events(visit),
        )
        made = await visit.services.call("WebhooksService/CreateWebhook", request)
    except Refusal as refusal:
        return await _list(visit, problems_of(refusal))
    return _issued("The webhook is made", made)


async def show(visit: Visit) -> PageResult:
    """Shows one webhook with its deliveries, and the forms that change it."""
    return await _webhook_page(visit)


async def edit(visit: Visit) -> PageResult:
    """Changes address, description and events."""
    await _webhook(visit)
    try:
        request = webhooks_pb2.UpdateWebhookRequest(
            webhook_id=visit.path["webhook_id"],
            url=visit.sent("url"),
            description=visit.sent("description"),
            events=webhooks_pb2.WebhookEventList(events=_sent_events(visit)),
        )
        await visit.services.call("WebhooksService/UpdateWebhook", request)
    except Refusal as refusal:
        return await _webhook_page(visit, problems_of(refusal))
    return Redirect(_path(visit), "The webhook is changed.")


async def rotate(visit: Visit) -> PageResult:
    """Issues a new secret; only this response shows it."""
    await _webhook(visit)
    hours = whole_number(visit.sent("overlap_hours"))
    try:
        if hours is None:
            raise invalid({"overlap_hours": "must be a whole number"})
        request = webhooks_pb2.RotateWebhookSecretRequest(
            webhook_id=visit.path["webhook_id"], overlap=duration_of(hours, TIME_UNIT_HOURS)
        )
        made = await visit.services.call("WebhooksService/RotateWebhookSecret", request)
    except Refusal as refusal:
        return await _webhook_page(visit, problems_of(refusal))
    return _issued("The webhook has a new secret", made)


async def pause(visit: Visit) -> PageResult:
    """Stops deliveries."""
    await _webhook(visit)
    request = webhooks_pb2.PauseWebhookRequest(webhook_id=visit.path["webhook_id"])
    await visit.services.call("WebhooksService/PauseWebhook", request)
    return Redirect(_path(visit), "The webhook is paused. Messages are kept for it.")


async def resume(visit: Visit) -> PageResult:
    """Resumes deliveries, with those that wait."""
    await _webhook(visit)
    request = webhooks_pb2.ResumeWebhookRequest(webhook_id=visit.path["webhook_id"])
    await visit.services.call("WebhooksService/ResumeWebhook", request)
    return Redirect(_path(visit), "The webhook is active. What waits is being delivered.")


async def delete(visit: Visit) -> PageResult:
    """Deletes a webhook with its deliveries."""
    await _webhook(visit)
    request = webhooks_pb2.DeleteWebhookRequest(webhook_id=visit.path["webhook_id"])
    await visit.services.call("WebhooksService/DeleteWebhook", request)
    return Redirect(_path_of_list(visit), f"The webhook {request.webhook_id} is deleted. Its audit trail stays.")


async def redeliver(visit: Visit) -> PageResult:
    """Delivers a message once more."""
    await _webhook(visit)
    request = webhooks_pb2.RedeliverWebhookMessageRequest(
        webhook_id=visit.path["webhook_id"], message_id=visit.sent("message_id")
    )
    await visit.services.call("WebhooksService/RedeliverWebhookMessage", request)
    return Redirect(_path(visit), f"The message {request.message_id} is being delivered once more.")


async def _list(visit: Visit, problems: Problems = _NOTHING_WRONG) -> View:
    request = webhooks_pb2.ListWebhooksRequest(key_id=visit.path["key_id"], page_size=_PAGE)
    found = await all_items(visit.services, "WebhooksService/ListWebhooks", request)
    sent = "url" in visit.form
    form = {
        "url": visit.sent("url"),
        "description": visit.sent("description"),
        "events": list(visit.form.get("events", ()))
        if sent
        else [text for text in EVENTS if not text.startswith("schedule.")],
    }
    context = {
        "key_id": visit.path["key_id"],
        "list_path": _path_of_list(visit),
        "webhooks": [(webhook, _names_of_events(webhook), _badge(webhook)) for webhook in found],
    }
    return View("webhooks/list.html", context | _form_shown(form, problems), status=400 if problems else 200)


async def _webhook_page(visit: Visit, problems: Problems = _NOTHING_WRONG) -> View:
    webhook = await _webhook(visit)
    deliveries = await visit.services.call(
        "WebhooksService/ListWebhookDeliveries",
        webhooks_pb2.ListWebhookDeliveriesRequest(
            webhook_id=webhook.webhook_id, page_token=visit.query.get("cursor", "")
        ),
    )
    sent = "url" in visit.form
    form = {
        "url": visit.sent("url") if sent else webhook.url,
        "description": visit.sent("description") if sent else webhook.description,
        "events": list(visit.form.get("events", ())) if sent else [_EVENT_NAMES[each] for each in webhook.events],
    }
    following = urlencode({"cursor": deliveries.next_page_token})
    context = {
        "webhook": webhook,
        "webhook_path": _path(visit),
        "list_path": _path_of_list(visit),
        "event_names": _names_of_events(webhook),
        "badge": _badge(webhook),
        "paused": _PAUSED.get(webhook.paused_reason, ""),
        "deliveries": [(each, _EVENT_NAMES.get(each.event, ""), *_outcome(each)) for each in deliveries.items],
        "older": f"{_path(visit)}?{following}" if deliveries.HasField("next_page_token") else "",
        "overlaps": [(hours, formatting.overlap(hours)) for hours in OVERLAP_HOURS],
    }
    return View("webhooks/show.html", context | _form_shown(form, problems), status=400 if problems else 200)


async def _webhook(visit: Visit) -> webhooks_pb2.Webhook:
    """Returns the webhook that the address names.

    Raises:
        Refusal: `not_found` if the webhook is not of the address's key, or as `UserServices.call`.
    """
    request = webhooks_pb2.GetWebhookRequest(webhook_id=visit.path["webhook_id"])
    webhook: webhooks_pb2.Webhook = await visit.services.call("WebhooksService/GetWebhook", request)
    if webhook.key_id != visit.path["key_id"]:
        raise Refusal("not_found", f"There is no webhook {webhook.webhook_id} of the key {visit.path['key_id']}.")
    return webhook


def _form_shown(form: dict[str, Any], problems: Problems) -> dict[str, Any]:
    return {
        "form": form,
        "events": list(_EVENT_WORDS.items()),
        "problems": problems,
        "elsewhere": {name: why for name, why in problems.items() if name not in _FIELDS},
    }


def _issued(heading: str, made: webhooks_pb2.WebhookWithSecret) -> View:
    return View("webhooks/issued.html", {"heading": heading, "webhook": made.webhook, "secret": made.secret}, once=True)


def _sent_events(visit: Visit) -> Sequence[webhooks_pb2.WebhookEvent.ValueType]:
    sent = visit.form.get("events", ())
    if not sent or any(text not in EVENTS for text in sent):
        raise invalid({"events": "must name at least one"})
    return [EVENTS[text] for text in sent]


def _names_of_events(webhook: webhooks_pb2.Webhook) -> str:
    return ", ".join(_EVENT_NAMES.get(event, "") for event in webhook.events)


def _badge(webhook: webhooks_pb2.Webhook) -> tuple[str, str]:
    """Returns the state of a webhook as text, and the kind of its badge."""
    if webhook.state == "paused":
        return "Paused", "bad" if webhook.paused_reason != "requested" else "warn"
    return ("Failing", "warn") if webhook.HasField("failing_since") else ("Active", "good")


def _outcome(delivery: webhooks_pb2.WebhookDelivery) -> tuple[tuple[str, str], str]:
    """Returns the state of a delivery as a badge, and its last answer."""
    last = str(delivery.last_status) if delivery.HasField("last_status") else delivery.last_error
    return _STATES.get(delivery.state, ("", "")), last


def _path_of_list(visit: Visit) -> str:
    return f"/keys/{quote(visit.path['key_id'], safe='')}/webhooks"


def _path(visit: Visit) -> str:
    return f"{_path_of_list(visit)}/{quote(visit.path['webhook_id'], safe='')}"
