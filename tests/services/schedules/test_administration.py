"""Schedules under applied manifests and in the hands of people, and planned starts."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from backend.services.workflows.deletion import delete_definition
from tests.services.calls import RefusedError
from tests.services.schedules.conftest import ScheduleWorld, utc
from tests.services.webhooks.hooked import arrived
from tests.support.webhook_receiver import Receiver
from workflow_api.v1 import runs_pb2, schedules_pb2, webhooks_pb2

NIGHTLY = '{name: nightly, cron: "0 2 * * *"}'
QUEUEING = '{name: nightly, cron: "*/15 * * * *", overlap: queue}'
BEFORE = "2026-09-24 01:00"
DUE = "2026-09-24 02:00"


@pytest.fixture
def nightly(world: ScheduleWorld) -> ScheduleWorld:
    world.at(utc(BEFORE))
    world.define(NIGHTLY)
    return world


def plan(world: ScheduleWorld, at: str, **fields: Any) -> schedules_pb2.Schedule:
    start = runs_pb2.StartRunRequest(workflow_id=world.workflows["Timed"], idempotency_key="plan", **fields)
    request = schedules_pb2.PlanStartRequest(start=start, at=Timestamp(seconds=utc(at) // 1000))
    planned: schedules_pb2.Schedule = world.schedules("PlanStart", request)
    return planned


def cancel(world: ScheduleWorld, schedule_id: str) -> None:
    world.schedules("CancelPlannedStart", schedules_pb2.CancelPlannedStartRequest(schedule_id=schedule_id))


def details_of(world: ScheduleWorld, action: str) -> list[Mapping[str, object]]:
    return [json.loads(record.details) for record in world.audited(action)]


def test_a_paused_schedule_starts_nothing_until_it_is_resumed(nightly: ScheduleWorld) -> None:
    paused = nightly.pause()
    assert (paused.paused, list(paused.next_times)) == (True, [])
    nightly.pause()
    nightly.round(utc(DUE))
    assert nightly.scheduled_runs() == []
    assert not nightly.resume().paused
    nightly.round(utc("2026-09-25 02:00"))
    assert nightly.started_at() == [utc("2026-09-25 02:00")]
    assert len(nightly.audited("schedule.paused")) == len(nightly.audited("schedule.resumed")) == 1


def test_a_pause_outlives_an_apply_until_the_manifest_says_otherwise(nightly: ScheduleWorld) -> None:
    nightly.pause()
    nightly.define('{name: nightly, cron: "0 3 * * *"}')
    assert nightly.schedule().paused
    nightly.define('{name: nightly, cron: "0 3 * * *", paused: true}')
    nightly.resume()
    nightly.define('{name: nightly, cron: "0 4 * * *", paused: true}')
    assert not nightly.schedule().paused
    nightly.define('{name: nightly, cron: "0 4 * * *"}')
    nightly.define('{name: nightly, cron: "0 4 * * *", paused: true}')
    assert nightly.schedule().paused


def test_an_applied_manifest_moves_adds_and_removes_schedules(nightly: ScheduleWorld) -> None:
    nightly.define('{name: nightly, cron: "30 1 * * *"}', '{name: hourly, cron: "0 * * * *", paused: true}')
    assert [each.name for each in nightly.listed()] == ["hourly", "nightly"]
    nightly.round(utc("2026-09-24 01:30"))
    assert nightly.started_at() == [utc("2026-09-24 01:30")]
    nightly.define()
    assert nightly.listed() == []
    nightly.define(NIGHTLY)
    # A due time that has started a run does so no second time.
    nightly.at(utc("2026-09-24 01:00"))
    nightly.define('{name: nightly, cron: "30 1 * * *"}')
    nightly.new_runner().round()
    nightly.round(utc("2026-09-24 01:30"))
    assert nightly.started_at() == [utc("2026-09-24 01:30")]


def test_schedules_are_listed_by_their_next_time_in_pages_without_those_that_have_none(world: ScheduleWorld) -> None:
    world.define(
        "{name: late, cron: '0 23 * * *'}",
        "{name: early, cron: '5 0 * * *'}",
        "{name: off, cron: '0 1 * * *', paused: true}",
    )
    other = world.define("{name: noon, cron: '0 12 * * *'}", workflow="Other")
    every = world.listed(by_next_time=True)
    times = [each.next_times[0].ToMilliseconds() for each in every]
    assert (times, {each.name for each in every}) == (sorted(times), {"late", "early", "noon"})
    first = world.schedules("ListSchedules", schedules_pb2.ListSchedulesRequest(by_next_time=True, page_size=2))
    rest = world.listed(by_next_time=True, page_token=first.next_page_token)
    assert [*first.items, *rest] == every
    assert [each.name for each in world.listed(by_next_time=True, workflow=other)] == ["noon"]
    with pytest.raises(RefusedError):
        world.listed(page_token=first.next_page_token)


def test_a_workflow_that_was_never_active_has_no_schedules_and_a_deleted_one_neither(world: ScheduleWorld) -> None:
    world.define(NIGHTLY, status="draft")
    assert world.listed() == []
    world.switch("Timed", active=True)
    assert [each.name for each in world.listed(workflow="Timed")] == ["nightly"]
    delete_definition(world.services.database, "Workflow", "Timed", now=world.clock(), actor="user:ana")
    assert world.listed() == []


def test_a_trigger_starts_one_run_now_whatever_runs(nightly: ScheduleWorld) -> None:
    nightly.pause()
    first = nightly.trigger("a")
    again = nightly.trigger("a")
    other = nightly.trigger("b")
    assert again.replayed
    assert first.run.summary.run_id == again.run.summary.run_id != other.run.summary.run_id
    assert first.run.triggered_by == runs_pb2.TRIGGERED_BY_SCHEDULE
    assert nightly.schedule().last.run_id == other.run.summary.run_id
    assert not nightly.schedule().last.HasField("due_at")
    nightly.resume()
    nightly.round(utc(DUE))
    assert nightly.last() == ("skipped", "in_flight")


def test_a_refused_trigger_is_an_answer_and_no_failure_of_the_schedule(nightly: ScheduleWorld) -> None:
    nightly.switch("Timed", active=False)
    with pytest.raises(RefusedError) as caught:
        nightly.trigger("a")
    assert caught.value.reason == "workflow_not_active"
    assert not nightly.schedule().HasField("last")


def test_an_unknown_schedule_is_named_with_those_that_there_are(nightly: ScheduleWorld) -> None:
    for call in (nightly.pause, nightly.resume):
        with pytest.raises(RefusedError) as caught:
            call("nightli")
        assert (caught.value.reason, "nightly" in caught.value.message) == ("not_found", True)


def queued(world: ScheduleWorld) -> None:
    """Brings a schedule about whose due time of 00:30 waits for the run of 00:15."""
    world.at(utc("2026-09-24 00:01"))
    world.define(QUEUEING)
    world.round(utc("2026-09-24 00:15"))
    world.round(utc("2026-09-24 00:30"))
    assert world.last() == ("queued", "")


def test_a_pause_skips_the_due_time_that_waits(world: ScheduleWorld) -> None:
    queued(world)
    assert not world.pause().HasField("waiting")
    assert [each["reason"] for each in details_of(world, "schedule.skipped")] == ["paused"]


def test_an_applied_pause_skips_the_due_time_that_waits(world: ScheduleWorld) -> None:
    queued(world)
    hook_of_schedules(world)
    world.define(QUEUEING.replace("}", ", paused: true}"))
    assert not world.schedule().HasField("waiting")
    assert world.last() == ("skipped", "paused")
    assert skipped_by(world) == [("paused", "2026-09-24T00:30:00.000+00:00")]


def test_a_schedule_that_is_removed_skips_the_due_time_that_waits(world: ScheduleWorld) -> None:
    queued(world)
    hook_of_schedules(world)
    world.define()
    assert skipped_by(world) == [("removed", "2026-09-24T00:30:00.000+00:00")]


def test_a_workflow_that_is_deleted_skips_the_due_time_that_waits(world: ScheduleWorld) -> None:
    queued(world)
    hook_of_schedules(world)
    world.end_runs()
    delete_definition(world.services.database, "Workflow", "Timed", now=world.clock(), actor="user:ana")
    assert skipped_by(world) == [("removed", "2026-09-24T00:30:00.000+00:00")]


def hook_of_schedules(world: ScheduleWorld) -> None:
    request = webhooks_pb2.CreateWebhookRequest(
        key_id=world.key, url="http://127.0.0.1:9/", events=[webhooks_pb2.WEBHOOK_EVENT_SCHEDULE_SKIPPED]
    )
    world.webhooks("CreateWebhook", request)


def skipped_by(world: ScheduleWorld) -> list[tuple[object, object]]:
    """Reason and due time of each skip, which an audit record and a message have alike."""
    records = [(each["reason"], each["due_at"]) for each in details_of(world, "schedule.skipped")]
    messages = [json.loads(row.data) for row in world.dump("webhook_deliveries WHERE event = 'schedule.skipped'")]
    assert [(each["reason"], each["due_at"]) for each in messages] == records
    return records


def test_a_planned_start_starts_once_with_what_it_was_given_and_keeps_none_of_it(nightly: ScheduleWorld) -> None:
    planned = plan(
        nightly, "2026-09-24 05:00", parameters='{"region": "US"}', input_text="secret", client_reference="order-7"
    )
    assert nightly.listed()[0].schedule_id == planned.schedule_id
    # Nothing ran at that time: it starts as soon as something does.
    for _ in range(2):
        nightly.round(utc("2026-09-24 09:00"))
    (run,) = [each for each in nightly.scheduled_runs() if each.client_reference == "order-7"]
    assert (json.loads(run.parameters), run.input_text) == ({"region": "US"}, "secret")
    (row,) = nightly.dump("schedules WHERE name IS NULL")
    assert (row.definition, row.last_run_id, row.next_at) == ("{}", run.run_id, None)
    nightly.at(utc("2026-11-24 09:00"))
    nightly.new_runner().round()
    assert nightly.dump("schedules WHERE name IS NULL") == []


def test_a_planned_start_can_be_cancelled_before_it_starts(nightly: ScheduleWorld) -> None:
    planned = plan(nightly, "2026-09-24 01:30")
    cancel(nightly, planned.schedule_id)
    nightly.round(utc("2026-09-24 01:31"))
    assert nightly.scheduled_runs() == []
    with pytest.raises(RefusedError) as caught:
        cancel(nightly, planned.schedule_id)
    assert caught.value.reason == "not_found"
    assert [len(nightly.audited(f"schedule.{action}")) for action in ("planned", "cancelled")] == [1, 1]


@pytest.mark.parametrize(
    ("at", "fields", "reason", "named"),
    [
        ("2026-09-24 00:59", {}, "invalid_request", ["at"]),
        ("2029-09-24 00:59", {}, "invalid_request", ["at"]),
        ("2026-09-24 05:00", {"upload_id": "upl_1"}, "invalid_request", ["start.upload_id"]),
        ("2026-09-24 05:00", {"parameters": '{"region": "MARS"}'}, "invalid_parameters", ["region"]),
        ("2026-09-24 05:00", {"version": 7}, "version_not_found", []),
    ],
)
def test_a_start_that_cannot_be_planned_is_refused_and_not_kept(
    nightly: ScheduleWorld, at: str, fields: dict[str, object], reason: str, named: list[str]
) -> None:
    with pytest.raises(RefusedError) as caught:
        plan(nightly, at, **fields)
    assert (caught.value.reason, list(caught.value.problems)) == (reason, named)
    assert nightly.dump("schedules WHERE name IS NULL") == []


def test_webhooks_that_ask_for_it_hear_of_skips_and_failures_of_workflows_that_their_key_may_start(
    nightly: ScheduleWorld, receiver: Receiver
) -> None:
    def hook(key_id: str, *events: webhooks_pb2.WebhookEvent.ValueType) -> str:
        request = webhooks_pb2.CreateWebhookRequest(key_id=key_id, url=receiver.url, events=events)
        webhook_id: str = nightly.webhooks("CreateWebhook", request).webhook.webhook_id
        return webhook_id

    skipped, failed = webhooks_pb2.WEBHOOK_EVENT_SCHEDULE_SKIPPED, webhooks_pb2.WEBHOOK_EVENT_SCHEDULE_FAILED
    asking = hook(nightly.key, skipped, failed)
    hook(nightly.key)
    nightly.round(utc("2026-09-24 12:00"))
    nightly.switch("Timed", active=False)
    nightly.round(utc("2026-09-25 02:00"))
    rows = nightly.dump("webhook_deliveries WHERE 1 = 1 ORDER BY message_id")
    assert [(row.webhook_id, row.event, row.run_id) for row in rows] == [
        (asking, "schedule.skipped", None),
        (asking, "schedule.failed", None),
    ]
    told = json.loads(rows[0].data)
    assert (told["workflow_id"], told["schedule"], told["reason"], told["count"]) == (
        nightly.workflows["Timed"],
        "nightly",
        "missed",
        1,
    )
    shown = nightly.webhooks("ListWebhookDeliveries", webhooks_pb2.ListWebhookDeliveriesRequest(webhook_id=asking))
    assert [each.run_id for each in shown.items] == ["", ""]
    nightly.deliver()
    assert sorted(arrived(receiver, 2)) == ["schedule.failed", "schedule.skipped"]
    sent = {each.json["type"]: each.json["data"] for each in receiver.received}
    assert sent["schedule.skipped"] == told
    assert sent["schedule.failed"]["reason"] == "workflow_not_active"
