"""Claims of messages by several processes, on the database that they share."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from backend.services.webhooks import attempts, delivery_sql
from backend.services.webhooks.rules import DeliveryOutcome
from backend.storage.database import Tx, run_of
from tests.support.poll import until
from tests.support.postgresql import Postgresql
from workflow_api.v1 import runs_pb2, runs_pb2_grpc, webhooks_pb2, webhooks_pb2_grpc
from workflow_api_testing import test_backend


@pytest.fixture
def url(postgresql_server: Postgresql) -> Iterator[str]:
    with postgresql_server.database() as url:
        yield url


def waits(url: str) -> bool:
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        ).fetchone()
    return found is not None and found[0] > 0


def test_a_message_whose_late_attempt_is_being_recorded_is_not_claimed_again(url: str) -> None:
    with test_backend(database=url) as backend, ThreadPoolExecutor(2) as pool:
        key, database, at = backend.add_key(), backend.composition.services.database, backend.clock.now
        webhooks = backend.stub(webhooks_pb2_grpc.WebhooksServiceStub)
        hook = webhooks_pb2.CreateWebhookRequest(key_id=key.key_id, url="https://example.org/hooks")
        webhook_id = webhooks.CreateWebhook(hook).webhook.webhook_id
        start = runs_pb2.StartRunRequest(workflow_id=backend.add_workflow(), idempotency_key="first")
        run_id = backend.stub(runs_pb2_grpc.RunsServiceStub, key=key).StartRun(start).run.summary.run_id
        backend.finish_run(run_id)

        def claim(claim_id: str, at: int) -> list[delivery_sql.ClaimedMessageRow]:
            return database.write(
                lambda tx: delivery_sql.claim(tx, webhook_id, claim_id, at, at + 10, 1), lock_key="webhook"
            )

        [row] = claim("clm_late", at)
        recorded, committed = threading.Event(), threading.Event()

        def record(tx: Tx) -> None:
            attempts.record_outcome(tx, row, "clm_late", DeliveryOutcome(200, None), at + 20)
            recorded.set()
            assert committed.wait(60)

        late = pool.submit(database.write, record, lock_key=run_of(run_id))
        assert recorded.wait(60)
        claimed = pool.submit(claim, "clm_next", at + 20)
        until(lambda: waits(url), "the claim to wait for the row")
        committed.set()
        late.result(60)
        assert claimed.result(60) == []
        [delivery] = webhooks.ListWebhookDeliveries(
            webhooks_pb2.ListWebhookDeliveriesRequest(webhook_id=webhook_id)
        ).items
        assert delivery.attempts == 1
        assert not delivery.HasField("next_attempt_at")
