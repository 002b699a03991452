"""Deliveries of webhooks when processes die. (docs/webhooks.md)"""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tests.support.admin import Credentials
from tests.support.poll import until
from tests.support.postgresql import Postgresql
from tests.support.service import Service
from tests.support.webhook_receiver import receiving
from workflow_api.v1 import webhooks_pb2

SETTINGS = {"WORKFLOW_API_WEBHOOKS_PRIVATE_NETWORKS": "127.0.0.0/8", "WORKFLOW_API_WEBHOOKS_TIMEOUT_SECONDS": "5"}


@pytest.fixture(params=["sqlite", "postgresql"])
def service(request: pytest.FixtureRequest, tmp_path: Path, postgresql_server: Postgresql) -> Iterator[Service]:
    with postgresql_server.database() as database:
        url = database if request.param == "postgresql" else None
        service = Service(tmp_path, database=url, variables=SETTINGS)
        service.start()
        yield service
        service.stop()


def test_a_kill_in_the_middle_of_deliveries_loses_no_message(service: Service) -> None:
    flows = service.admin.apply_test_workflows()
    caller = service.new_caller()
    with receiving() as receiver:
        ended = threading.Event()

        def never(request: BaseHTTPRequestHandler) -> None:
            ended.wait()

        receiver.answer = never
        request = webhooks_pb2.CreateWebhookRequest(key_id=caller.key_id, url=receiver.url)
        webhook_id = service.admin.webhooks.CreateWebhook(request).webhook.webhook_id
        runs = [caller.finished(flows["Silence"])["run_id"] for _ in range(3)]
        until(lambda: len(receiver.received) == 3, "the first attempts")
        runs.append(caller.finished(flows["Silence"])["run_id"])
        service.kill()
        ended.set()
        receiver.answer = None
        before = [message.message_id for message in receiver.received]
        service.start()
        service.caller(Credentials(caller.key_id, caller.key, caller.external_id))

        def delivered() -> bool:
            page = webhooks_pb2.ListWebhookDeliveriesRequest(webhook_id=webhook_id)
            states = {each.state for each in service.admin.webhooks.ListWebhookDeliveries(page).items}
            return states == {webhooks_pb2.WEBHOOK_DELIVERY_STATE_DELIVERED}

        # The claims of the process that was killed lapse after 15 seconds.
        until(delivered, "every message")
        again = receiver.received[len(before) :]
        assert sorted(message.json["data"]["run_id"] for message in again) == sorted(runs)
        assert set(before) <= {message.message_id for message in again}
