"""Deliveries to a real receiver. (docs/webhooks.md)"""

import json
import socket
import time
from collections.abc import Callable
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from standardwebhooks import Webhook

from backend.common import metrics
from backend.common.clock import HOUR_MS
from backend.services.webhooks import delivery_sql
from backend.services.webhooks.attempts import BACK_OFF_MS
from backend.settings import WebhookSettings
from edge.openapi.document import openapi_document
from telemetry import tracing
from telemetry.otel import Tracing
from tests.services.webhooks.hooked import DELIVERED, FAILED, LOOPBACK, PENDING, WebhookWorld, arrived
from tests.support.poll import until
from tests.support.webhook_receiver import Receiver
from workflow_api.v1 import audit_pb2, runs_pb2, webhooks_pb2
from workflow_api_client import WebhookRun, verify_webhook

NAME = "rebound.example"
DESCRIBED = Draft202012Validator(json.loads(openapi_document("localhost"))["components"]["schemas"]["WebhookMessage"])


def resolve_to(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    """Answers for `NAME` as its name server would: one address after the other, and the last from then on."""
    answers = list(addresses)
    getaddrinfo = socket.getaddrinfo

    def resolve(host: str, *arguments: Any, **options: Any) -> Any:
        if host == NAME:
            host = answers.pop(0) if len(answers) > 1 else answers[0]
        return getaddrinfo(host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)


def _signatures(receiver: Receiver, *secrets: str) -> list[bool]:
    """Whether each signature of the last message is the one of the secret at its place."""
    last = receiver.received[-1]
    at = int(last.headers["webhook-timestamp"])
    expected = [
        Webhook(secret).sign(last.message_id, datetime.fromtimestamp(at, UTC), last.body.decode()) for secret in secrets
    ]
    return [given == wanted for given, wanted in zip(last.headers["webhook-signature"].split(), expected, strict=True)]


def test_a_message_names_the_run_and_nothing_of_its_content(hooked: WebhookWorld, receiver: Receiver) -> None:
    made = hooked.hook(receiver.url)
    run_id = hooked.finished(client_reference="order-7", input_text="Confidential")
    hooked.deliver()
    arrived(receiver, 1)
    message = receiver.received[0]
    assert message.json == {
        "type": "run.ended",
        "timestamp": "2026-09-21T14:13:21.000+00:00",
        "data": {
            "run_id": run_id,
            "workflow_id": hooked.workflows["Plain"],
            "status": "completed",
            "client_reference": "order-7",
        },
    }
    assert message.headers["content-type"] == "application/json"
    assert DESCRIBED.is_valid(message.json)
    verified = verify_webhook(
        made.secret, message.headers, message.body, now=float(message.headers["webhook-timestamp"])
    )
    assert verified.data == WebhookRun(run_id, hooked.workflows["Plain"], "completed", "order-7")
    assert _signatures(receiver, made.secret) == [True]
    delivered = hooked.attempted(made.webhook.webhook_id, 1)
    assert (delivered.state, delivered.last_status, delivered.message_id) == (DELIVERED, 204, message.message_id)


def test_a_message_of_a_run_that_resumed_another_names_it(hooked: WebhookWorld, receiver: Receiver) -> None:
    made = hooked.hook(receiver.url)
    ended = hooked.started()
    hooked.cancel(ended)
    request = runs_pb2.ResumeRunRequest(run_id=ended, idempotency_key="resume")
    hooked.cancel(hooked.runs("ResumeRun", request).run.summary.run_id)
    hooked.deliver()
    arrived(receiver, 2)
    named = {message.json["data"].get("resumed_from") for message in receiver.received}
    assert named == {None, ended}
    assert all(DESCRIBED.is_valid(message.json) for message in receiver.received)
    verified = [
        verify_webhook(made.secret, each.headers, each.body, now=float(each.headers["webhook-timestamp"])).data
        for each in receiver.received
    ]
    assert {data.resumed_from for data in verified if isinstance(data, WebhookRun)} == named


def test_the_time_of_an_attempt_has_nothing_of_what_is_read_for_it(
    hooked: WebhookWorld, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    observed: list[float] = []
    now = [0.0]

    def read(*_: Any) -> dict[str, str]:
        now[0] += 60
        return {}

    monkeypatch.setattr(metrics.WEBHOOK_SECONDS, "observe", observed.append)
    monkeypatch.setattr("backend.services.webhooks.deliverer.perf_counter", lambda: now[0])
    monkeypatch.setattr("backend.services.webhooks.deliverer.carrier_of_run", read)
    recording = Tracing("backend", "1", "http://127.0.0.1:1")
    monkeypatch.setattr(tracing, "active", lambda: recording)
    made = hooked.hook(receiver.url)
    hooked.finished()
    hooked.deliver()
    hooked.attempted(made.webhook.webhook_id, 1)
    assert (observed, now) == ([0.0], [60.0])
    recording.close(10)


def test_messages_are_signed_with_both_secrets_until_the_overlap_ends(hooked: WebhookWorld, receiver: Receiver) -> None:
    first = hooked.hook(receiver.url)
    request = webhooks_pb2.RotateWebhookSecretRequest(webhook_id=first.webhook.webhook_id)
    second = hooked.webhooks("RotateWebhookSecret", request)
    assert second.secret != first.secret
    hooked.deliver()
    hooked.finished()
    arrived(receiver, 1)
    assert _signatures(receiver, second.secret, first.secret) == [True, True]
    hooked.clock.advance(days=1)
    hooked.finished()
    arrived(receiver, 2)
    assert _signatures(receiver, second.secret) == [True]


def test_the_next_message_of_a_run_waits_for_the_one_before(hooked: WebhookWorld, receiver: Receiver) -> None:
    made = hooked.hook(receiver.url)
    receiver.status = 500
    run_id = hooked.finished()
    hooked.erase(run_id)
    other = hooked.finished()
    hooked.deliver()
    arrived(receiver, 2)
    of_webhook = f"webhook_deliveries WHERE webhook_id = '{made.webhook.webhook_id}'"
    until(
        lambda: [row.claim for row in hooked.dump(of_webhook) if row.attempts == 1] == [None, None],
        "what came of both attempts",
    )
    assert {message.json["data"]["run_id"] for message in receiver.received} == {run_id, other}
    receiver.status = 200
    hooked.clock.advance(seconds=6)
    arrived(receiver, 5)
    of_run = [message.json["type"] for message in receiver.received if message.json["data"]["run_id"] == run_id]
    assert of_run == ["run.ended", "run.ended", "run.erased"]
    assert not hooked.show(made.webhook.webhook_id).HasField("failing_since")


def test_a_message_is_sent_again_with_the_same_id_over_72_hours(hooked: WebhookWorld, receiver: Receiver) -> None:
    made = hooked.hook(receiver.url)
    receiver.status = 503
    hooked.finished()
    began = hooked.clock()
    hooked.deliver()
    for attempt, pause in enumerate(BACK_OFF_MS, 1):
        found = hooked.attempted(made.webhook.webhook_id, attempt)
        assert (found.state, found.last_status, found.last_error) == (PENDING, 503, "status")
        wait = found.next_attempt_at.ToMilliseconds() - hooked.clock()
        assert pause <= wait <= pause * 1.1
        hooked.clock.advance(seconds=wait / 1000)
    hooked.attempted(made.webhook.webhook_id, len(BACK_OFF_MS) + 1)
    assert hooked.clock() - began >= 72 * HOUR_MS
    assert len({message.message_id for message in receiver.received}) == 1
    # Nothing arrived in all that time.
    shown = hooked.show(made.webhook.webhook_id)
    assert (shown.state, shown.paused_reason, shown.deliveries_pending) == ("paused", "unreachable", 1)
    trail = hooked.deployment("ListAuditRecords", audit_pb2.ListAuditRecordsRequest(target=shown.webhook_id)).items
    assert (trail[0].actor, trail[0].action) == ("system", "webhook.paused")


def test_one_message_is_given_up_where_others_arrive(hooked: WebhookWorld, receiver: Receiver) -> None:
    made = hooked.hook(receiver.url)
    refused = hooked.finished()

    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(400 if receiver.received[-1].json["data"]["run_id"] == refused else 200)
        request.end_headers()

    receiver.answer = answer
    hooked.deliver()
    for attempt, pause in enumerate(BACK_OFF_MS, 1):
        hooked.attempted(made.webhook.webhook_id, attempt)
        if attempt == len(BACK_OFF_MS) - 2:
            hooked.finished()
            until(lambda: hooked.deliveries(made.webhook.webhook_id)[-1].state == DELIVERED, "the other message")
        hooked.clock.advance(seconds=pause * 1.1 / 1000)
    until(lambda: hooked.deliveries(made.webhook.webhook_id)[0].state == FAILED, "the end of attempts")
    assert hooked.show(made.webhook.webhook_id).state == "active"


def test_a_receiver_that_is_gone_is_paused_and_its_messages_wait(hooked: WebhookWorld, receiver: Receiver) -> None:
    made = hooked.hook(receiver.url)
    webhook_id = made.webhook.webhook_id
    receiver.status = 410
    hooked.finished()
    hooked.deliver()
    until(lambda: hooked.show(webhook_id).paused_reason == "gone", "the pause")
    hooked.finished()
    receiver.status = 200
    hooked.webhooks("ResumeWebhook", webhooks_pb2.ResumeWebhookRequest(webhook_id=webhook_id))
    until(lambda: {each.state for each in hooked.deliveries(webhook_id)} == {DELIVERED}, "both messages")


def test_a_paused_webhook_gets_what_happened_once_it_is_resumed(hooked: WebhookWorld, receiver: Receiver) -> None:
    webhook_id = hooked.hook(receiver.url).webhook.webhook_id
    hooked.webhooks("PauseWebhook", webhooks_pb2.PauseWebhookRequest(webhook_id=webhook_id))
    other = hooked.hook(receiver.url + "/other").webhook.webhook_id
    run_id = hooked.finished()
    hooked.erase(run_id)
    hooked.deliver()
    until(lambda: {each.state for each in hooked.deliveries(other)} == {DELIVERED}, "the other webhook's messages")
    assert {message.path for message in receiver.received} == {"/hook/other"}
    hooked.webhooks("ResumeWebhook", webhooks_pb2.ResumeWebhookRequest(webhook_id=webhook_id))
    arrived(receiver, 4)
    assert [each.json["type"] for each in receiver.received if each.path == "/hook"] == ["run.ended", "run.erased"]


def test_a_message_can_be_delivered_once_more(hooked: WebhookWorld, receiver: Receiver) -> None:
    webhook_id = hooked.hook(receiver.url).webhook.webhook_id
    hooked.finished()
    hooked.deliver()
    message_id = hooked.attempted(webhook_id, 1).message_id
    request = webhooks_pb2.RedeliverWebhookMessageRequest(webhook_id=webhook_id, message_id=message_id)
    assert hooked.webhooks("RedeliverWebhookMessage", request).state == PENDING
    arrived(receiver, 2)
    assert {message.message_id for message in receiver.received} == {message_id}


def test_a_commit_wakes_the_deliverer_which_else_looks_seldom(hooked: WebhookWorld, receiver: Receiver) -> None:
    webhook_id = hooked.hook(receiver.url).webhook.webhook_id
    hooked.deliver(poll_seconds=3600)
    run_id = hooked.finished()
    message_id = hooked.attempted(webhook_id, 1).message_id
    hooked.erase(run_id)
    arrived(receiver, 2)
    hooked.webhooks("PauseWebhook", webhooks_pb2.PauseWebhookRequest(webhook_id=webhook_id))
    hooked.finished()
    hooked.webhooks("ResumeWebhook", webhooks_pb2.ResumeWebhookRequest(webhook_id=webhook_id))
    arrived(receiver, 3)
    request = webhooks_pb2.RedeliverWebhookMessageRequest(webhook_id=webhook_id, message_id=message_id)
    hooked.webhooks("RedeliverWebhookMessage", request)
    assert arrived(receiver, 4) == ["run.ended", "run.erased", "run.ended", "run.ended"]


def test_the_next_attempt_has_a_timer(hooked: WebhookWorld, receiver: Receiver) -> None:
    webhook_id = hooked.hook(receiver.url).webhook.webhook_id
    hooked.finished()
    at, began = hooked.clock(), time.monotonic()
    taken = hooked.services.database.write(lambda tx: delivery_sql.claim(tx, webhook_id, "clm_dead", at, at + 500, 1))
    assert len(taken) == 1
    hooked.deliver(poll_seconds=3600, clock=lambda: at + round((time.monotonic() - began) * 1000))
    arrived(receiver, 1)


def test_a_redirect_is_not_followed(hooked: WebhookWorld, receiver: Receiver) -> None:
    webhook_id = hooked.hook(receiver.url).webhook.webhook_id
    receiver.status, receiver.location = 307, receiver.url + "/elsewhere"
    hooked.finished()
    hooked.deliver()
    found = hooked.attempted(webhook_id, 1)
    assert (found.last_status, found.last_error) == (307, "redirect")
    assert [message.path for message in receiver.received] == ["/hook"]


# All of them are the receiver's, or that of a machine beside it.
@pytest.mark.parametrize(
    "address", ["127.0.0.1", "0.0.0.0", "169.254.169.254", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "fe80::1%lo"]
)
def test_a_private_address_behind_a_name_is_refused_when_it_is_connected_to(
    hooked: WebhookWorld, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    resolve_to(monkeypatch, address)
    port = receiver.url.rpartition(":")[2].partition("/")[0]
    webhook_id = hooked.hook(f"https://{NAME}:{port}/hook").webhook.webhook_id
    hooked.finished()
    hooked.deliver(WebhookSettings())
    assert hooked.attempted(webhook_id, 1).last_error == "address"
    assert receiver.received == []


def test_a_name_that_later_leads_elsewhere_leads_nowhere(
    hooked: WebhookWorld, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The second would reach the receiver, too.
    resolve_to(monkeypatch, "127.0.0.1", "0.0.0.0")
    webhook_id = hooked.hook(receiver.url.replace("127.0.0.1", NAME)).webhook.webhook_id
    hooked.deliver()
    hooked.finished()
    message_id = hooked.attempted(webhook_id, 1).message_id
    request = webhooks_pb2.RedeliverWebhookMessageRequest(webhook_id=webhook_id, message_id=message_id)
    hooked.webhooks("RedeliverWebhookMessage", request)
    until(lambda: hooked.deliveries(webhook_id)[0].last_error == "address", "the refusal")
    assert len(receiver.received) == 1


def test_an_unencrypted_message_goes_to_the_allowed_networks_alone(hooked: WebhookWorld, receiver: Receiver) -> None:
    webhook_id = hooked.hook(receiver.url.replace("127.0.0.1", "localhost")).webhook.webhook_id
    hooked.finished()
    hooked.deliver(WebhookSettings(private_networks=("10.0.0.0/8",)))
    assert hooked.attempted(webhook_id, 1).last_error == "address"
    assert receiver.received == []


def _endless_head(request: BaseHTTPRequestHandler) -> None:
    try:
        request.wfile.write(b"HTTP/1.1 200 OK\r\n")
        for number in range(100_000):
            request.wfile.write(b"x-%d: %s\r\n" % (number, b"x" * 4_000))
    except OSError:
        pass


def _no_http(request: BaseHTTPRequestHandler) -> None:
    request.wfile.write(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")


def _nothing(request: BaseHTTPRequestHandler) -> None:
    request.connection.shutdown(socket.SHUT_RDWR)


def _silence(request: BaseHTTPRequestHandler) -> None:
    request.connection.settimeout(None)
    request.connection.recv(1)


@pytest.mark.parametrize(
    ("answer", "error"),
    [(_endless_head, "answer"), (_no_http, "answer"), (_nothing, "connection"), (_silence, "timeout")],
)
def test_an_answer_is_bounded(
    hooked: WebhookWorld, receiver: Receiver, answer: Callable[[BaseHTTPRequestHandler], None], error: str
) -> None:
    receiver.answer = answer
    webhook_id = hooked.hook(receiver.url).webhook.webhook_id
    hooked.finished()
    hooked.deliver(WebhookSettings(private_networks=LOOPBACK.private_networks, timeout_seconds=2))
    assert hooked.attempted(webhook_id, 1).last_error == error


def test_an_endless_body_is_not_read(hooked: WebhookWorld, receiver: Receiver) -> None:
    def endless(request: BaseHTTPRequestHandler) -> None:
        try:
            request.send_response(200)
            request.end_headers()
            for _ in range(1_000_000):
                request.wfile.write(b"x" * 65_536)
        except OSError:
            pass

    receiver.answer = endless
    webhook_id = hooked.hook(receiver.url).webhook.webhook_id
    hooked.finished()
    hooked.deliver()
    assert hooked.attempted(webhook_id, 1).state == DELIVERED


def test_a_deliverer_that_stops_gives_its_claims_back(hooked: WebhookWorld, receiver: Receiver) -> None:
    receiver.answer = _silence
    webhook_id = hooked.hook(receiver.url).webhook.webhook_id
    hooked.finished()
    hooked.deliver(WebhookSettings(private_networks=LOOPBACK.private_networks, timeout_seconds=120))
    arrived(receiver, 1)
    hooked.stop()
    receiver.answer = None
    hooked.deliver()
    assert hooked.attempted(webhook_id, 1).state == DELIVERED
