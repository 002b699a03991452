"""What is written for webhooks with a change of a run. (docs/webhooks.md)"""

import pytest

from backend.services.runs import lifecycle
from backend.services.runs.erasure import RunDataRetention
from backend.storage.database import Tx
from tests.services.webhooks.hooked import WebhookWorld
from workflow_api.v1 import keys_pb2, webhooks_pb2

URL = "https://example.org/hook"


def _told(hooked: WebhookWorld) -> list[tuple[str, str]]:
    rows = sorted(hooked.dump("webhook_deliveries"), key=lambda row: row.ordinal)
    return [(row.event, row.run_status) for row in rows]


def test_a_run_tells_when_it_waits_ends_and_is_erased(hooked: WebhookWorld) -> None:
    hooked.hook(URL)
    run_id = hooked.started("Gated")
    hooked.park(run_id, hooked.begin(run_id), "review", "other")
    hooked.cancel(run_id)
    hooked.erase(run_id)
    assert _told(hooked) == [
        ("run.waiting_for_approval", "waiting_for_approval"),
        ("run.ended", "cancelled"),
        ("run.erased", "cancelled"),
    ]


def test_a_run_that_goes_on_at_once_does_not_tell_that_it_waits(hooked: WebhookWorld) -> None:
    hooked.hook(URL)
    run_id = hooked.started("Gated")
    segment_id = hooked.begin(run_id)
    hooked.decide(hooked.ask(run_id, segment_id, "review"), approve=True)
    hooked.park(run_id, segment_id)
    assert _told(hooked) == []


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
def test_a_run_tells_once_that_it_ended(hooked: WebhookWorld, status: str) -> None:
    hooked.hook(URL)
    run_id = hooked.started()
    hooked.begin(run_id)
    assert hooked.close(run_id, status)
    assert not hooked.close(run_id, "failed")
    assert _told(hooked) == [("run.ended", status)]


def test_a_change_that_is_undone_tells_nothing(hooked: WebhookWorld) -> None:
    hooked.hook(URL)
    run_id = hooked.started()
    hooked.begin(run_id)

    def undone(tx: Tx) -> None:
        assert lifecycle.close_run(tx, run_id, "completed", hooked.clock())
        raise KeyError

    with pytest.raises(KeyError):
        hooked.services.database.write(undone)
    assert _told(hooked) == []


def test_erasure_by_retention_tells_too(hooked: WebhookWorld) -> None:
    hooked.hook(URL, events=[webhooks_pb2.WEBHOOK_EVENT_RUN_ERASED])
    hooked.finished()
    hooked.clock.advance(days=400)
    rule = RunDataRetention(hooked.runtime)
    assert hooked.services.database.write(lambda tx: rule.delete_batch(tx, hooked.clock())) == 1
    assert _told(hooked) == [("run.erased", "completed")]


def test_a_webhook_tells_only_of_runs_of_its_key_and_of_its_events(hooked: WebhookWorld) -> None:
    hooked.hook(URL, key_id=hooked.new_key())
    hooked.hook(URL, events=[webhooks_pb2.WEBHOOK_EVENT_RUN_ERASED])
    run_id = hooked.finished()
    assert _told(hooked) == []
    hooked.erase(run_id)
    assert _told(hooked) == [("run.erased", "completed")]


def test_a_revoked_key_tells_nothing(hooked: WebhookWorld) -> None:
    hooked.hook(URL)
    run_id = hooked.started()
    hooked.begin(run_id)
    hooked.keys("RevokeKey", keys_pb2.RevokeKeyRequest(key_id=hooked.key))
    assert hooked.close(run_id)
    assert _told(hooked) == []


def test_messages_hold_nothing_of_a_run_but_its_id(hooked: WebhookWorld) -> None:
    hooked.hook(URL)
    run_id = hooked.started(input_text="Confidential", client_reference="order-7", labels={"name": "Ada"})
    hooked.begin(run_id)
    assert hooked.close(run_id, "failed", error_code="node_failed", error_message="Confidential")
    hooked.erase(run_id)
    for row in hooked.dump("webhook_deliveries"):
        assert "Confidential" not in str(row)
        assert "Ada" not in str(row)
        assert "order-7" not in str(row)
