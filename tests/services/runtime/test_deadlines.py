"""Approvals that nobody decides end by the clock, in a run that really runs; forms reach later steps."""

import json
from typing import Any, Final

import pytest

from backend.services.webhooks.servicer import WebhooksServicer
from backend.settings import WebhookSettings
from tests.services.calls import Caller
from tests.services.runtime.conftest import RuntimeWorld, agent_step
from tests.support.poll import until
from workflow_api.v1 import runs_pb2, webhooks_pb2

HOUR: Final = 3_600
MAIL: Final = "ana@example.com"
FORM: Final = {"type": "object", "properties": {"note": {"type": "string"}, "amount": {"type": "integer"}}}


def bounded(step: str, **approval: Any) -> dict[str, Any]:
    return {"step": step, "approval": {"title": "Close the month?", **approval}}


def started(world: RuntimeWorld, name: str, *, workflow: dict[str, Any] | None = None, **approval: Any) -> str:
    steps = [bounded("review", **approval), agent_step("after", "echo", "review")]
    run_id = world.run(name, steps, workflow={"result": {"step": "after"}, **(workflow or {})})
    world.until_status(run_id, "waiting_for_approval")
    return run_id


def types(world: RuntimeWorld, run_id: str) -> list[str]:
    return [event.type for segment in world.all_events(run_id) for event in segment]


@pytest.mark.parametrize(
    ("on_deadline", "message", "recorded"),
    [
        (
            "reject",
            "The approval of step 'review' was rejected, because nobody decided it before its deadline.",
            ["approval.expired", "approval.decided"],
        ),
        ("fail", "The approval of step 'review' was not decided before its deadline.", ["approval.expired"]),
    ],
)
def test_a_run_ends_at_the_deadline_of_its_approval(
    world: RuntimeWorld, on_deadline: str, message: str, recorded: list[str]
) -> None:
    run_id = started(world, "Bounded", deadline_hours=2.5, on_deadline=on_deadline)
    world.clock.advance(seconds=2.5 * HOUR)
    row = world.until_ended(run_id)
    assert (row.status, row.error_code, row.error_message) == ("failed", "invariant_blocked", message)
    assert world.board(run_id) == {"review": "blocked", "after": "blocked"}
    assert [kind for kind in types(world, run_id) if kind in {"approval.expired", "approval.decided"}] == recorded


def test_a_deadline_that_passed_while_everything_was_down_ends_the_run_at_the_first_round(
    idle_world: RuntimeWorld, tmp_path: Any
) -> None:
    world = idle_world
    world.local_runtime.start()
    run_id = started(world, "Down", deadline_hours=1)
    world.local_runtime.stop()
    world.clock.advance(seconds=100 * HOUR)
    again = world.new_runtime(tmp_path / "data")
    again.start()
    try:
        assert world.until_ended(run_id).error_code == "invariant_blocked"
    finally:
        again.stop()


def test_people_are_reminded_once_and_the_run_goes_on_after_their_decision(world: RuntimeWorld) -> None:
    run_id = started(world, "Reminded", deadline_hours=48, remind_hours=24)
    world.clock.advance(seconds=24 * HOUR)
    until(lambda: "approval.reminded" in types(world, run_id), "the reminder")
    world.clock.advance(seconds=HOUR)
    approval_id = world.approvals(run_id)["review"]
    (item,) = world.runs("ListPendingApprovals", runs_pb2.ListPendingApprovalsRequest(run_id=run_id)).items
    assert item.HasField("reminded_at")
    world.decide(approval_id, approve=True)
    assert world.until_ended(run_id).status == "completed"
    assert types(world, run_id).count("approval.reminded") == 1


def test_webhooks_tell_of_the_reminder_and_of_the_deadline(world: RuntimeWorld) -> None:
    webhooks = Caller(
        WebhooksServicer(world.services, WebhookSettings()), webhooks_pb2.DESCRIPTOR.services_by_name["WebhooksService"]
    )
    request = webhooks_pb2.CreateWebhookRequest(key_id=world.key, url="https://example.org/hooks")
    webhook_id = webhooks("CreateWebhook", request).webhook.webhook_id
    run_id = started(world, "Told", deadline_hours=2, remind_hours=1)
    world.clock.advance(seconds=HOUR)
    until(lambda: "approval.reminded" in types(world, run_id), "the reminder")
    world.clock.advance(seconds=HOUR)
    world.until_ended(run_id)
    rows = world.dump(f"webhook_deliveries WHERE webhook_id = '{webhook_id}'")
    told = [(row.event, row.run_status) for row in sorted(rows, key=lambda row: row.ordinal)]
    waiting = "waiting_for_approval"
    assert told == [
        ("run.waiting_for_approval", waiting),
        ("approval.reminded", waiting),
        ("approval.expired", waiting),
        ("run.ended", "failed"),
    ]


def test_later_steps_get_decision_comment_form_and_time(world: RuntimeWorld) -> None:
    run_id = started(world, "Filled", form=FORM)
    approval_id = world.approvals(run_id)["review"]
    world.decide(approval_id, approve=True, comment="fine", form=json.dumps({"note": "paid", "amount": 3}))
    value = json.loads(world.until_ended(run_id).result)["needs"]["review"]
    assert value.pop("decided_at").endswith("+00:00")
    assert value == {"decision": "approved", "comment": "fine", "form": {"note": "paid", "amount": 3}}


@pytest.mark.parametrize("stages", [["steps"], ["outputs"], ["steps", "outputs"]])
def test_values_of_a_form_are_swept_wherever_a_comment_is(world: RuntimeWorld, stages: list[str]) -> None:
    policy = {"pii_policy": {"mode": "redact", "stages": stages}}
    run_id = started(world, "Swept form", workflow=policy, form=FORM)
    form = json.dumps({"note": f"ask {MAIL}", "amount": 3})
    world.decide(world.approvals(run_id)["review"], approve=True, comment=f"ask {MAIL}", form=form)
    world.until_ended(run_id)
    events = [event for segment in world.all_events(run_id) for event in segment]
    (decided,) = (json.loads(event.data) for event in events if event.type == "approval.decided")
    assert (decided["comment"], decided["form"]) == (
        "ask [EMAIL_ADDRESS]",
        {"note": "ask [EMAIL_ADDRESS]", "amount": 3},
    )
    (step,) = world.dump(f"steps WHERE run_id = '{run_id}' AND step = 'review'")
    assert (MAIL not in step.value) == ("steps" in stages)


def test_an_erased_run_leaves_nothing_of_a_form(world: RuntimeWorld) -> None:
    run_id = started(world, "Erased form", form=FORM)
    world.decide(world.approvals(run_id)["review"], approve=True, form='{"note": "for your eyes"}')
    world.until_ended(run_id)
    world.erase(run_id)
    for table in ("approvals", "steps", "events", "audit_records", "runs"):
        assert "for your eyes" not in str(world.dump(table))
