"""Runs of steps that name a workflow: children of the run that starts them (docs/flows.md)."""

import asyncio
import json
import threading
from typing import Any

import pytest
from sqlalchemy import bindparam, update

from backend.runtime.execution.child_run import ChildRun
from backend.services.run_changes import Subscription
from backend.services.runs import lifecycle
from backend.services.runs.erasure import RunDataRetention
from backend.services.runs.figures import RunDays
from backend.services.runs.servicer import RunListsServicer
from backend.services.runs.start.children import ChildStarter, NewChild
from backend.services.runs.start.rules import ValidatedInputs
from backend.services.webhooks.servicer import WebhooksServicer
from backend.settings import WebhookSettings
from backend.storage.database import Tx
from backend.storage.statements import Command
from backend.storage.tables.runs import runs
from tests.services.calls import Caller, RefusedError
from tests.services.runtime.conftest import RuntimeWorld, agent_step, gate, manifest
from tests.support.poll import until
from workflow_api.v1 import keys_pb2, run_lists_pb2, runs_pb2, webhooks_pb2

TOTAL = [{"name": "total", "type": "integer"}, {"name": "note", "type": "string"}]
RESULT = {"step": "count"}


def child_step(step: str, workflow: str, *needs: str, **fields: Any) -> dict[str, Any]:
    return {"step": step, "workflow": workflow, "needs": list(needs), **fields}


def children(world: RuntimeWorld, run_id: str) -> list[Any]:
    """The rows of the children of a run, in the order of their starts."""
    return sorted(world.dump(f"runs WHERE parent_run_id = '{run_id}'"), key=lambda row: (row.created_at, row.run_id))


def until_child(world: RuntimeWorld, run_id: str, status: str = "running") -> Any:
    until(lambda: [row for row in children(world, run_id) if row.status == status], f"a child that is {status}")
    return children(world, run_id)[-1]


def apply_all(world: RuntimeWorld, *manifests: str) -> None:
    world.workflows |= world.apply("\n---\n".join(manifests))


def invoice(name: str = "Invoice", agent: str = "given", **fields: Any) -> str:
    return manifest(name, [agent_step("count", agent)], **{"parameters": TOTAL, "result": RESULT, **fields})


@pytest.fixture(autouse=True)
def agents(world: RuntimeWorld) -> None:
    code = "def run(context):\n    return {**context.parameters, 'reference': context.client_reference}\n"
    lists = "def run(context):\n    return {'total': 41, 'text': 'x' * 300_000}\n"
    world.apply(
        "\n---\n".join(
            json.dumps({"kind": "Agent", "name": name, "type": "python", "code": text})
            for name, text in {"given": code, "lister": lists}.items()
        )
    )


def test_the_result_of_a_child_is_the_value_of_its_step(world: RuntimeWorld) -> None:
    apply_all(world, invoice())
    given = {"total": "=needs.list.total + 1", "note": "as it stands"}
    steps = [agent_step("list", "lister"), child_step("pay", "Invoice", "list", parameters=given)]
    steps.append(agent_step("after", "echo", "pay"))
    run_id = world.run("Parent", steps, workflow={"result": {"step": "after"}}, client_reference="ours")
    row = world.until_ended(run_id)

    assert row.status == "completed", row.error_message
    assert json.loads(row.result)["needs"]["pay"] == {"total": 42, "note": "as it stands", "reference": "ours"}
    (child,) = children(world, run_id)
    assert (child.status, child.key_id, child.workflow_name, child.depth) == ("completed", world.key, "Invoice", 1)
    assert (child.parent_step, child.parent_item, child.triggered_by) == ("pay", None, "api_key")
    events = [event for event in world.events(run_id, page_size=500).events if event.type.startswith("child.")]
    told = [(event.type, event.step, json.loads(event.data)) for event in events]
    assert told == [
        ("child.started", "pay", {"run_id": child.run_id, "status": "queued", "item_index": None}),
        ("child.ended", "pay", {"run_id": child.run_id, "status": "completed", "item_index": None}),
    ]


def test_a_large_result_of_a_child_arrives_whole(world: RuntimeWorld) -> None:
    apply_all(world, invoice(agent="lister"))
    run_id = world.run("Parent", [child_step("pay", "Invoice")], workflow={"result": {"step": "pay"}})
    assert world.until_ended(run_id).result_size_bytes > 300_000


def test_a_child_without_a_result_gives_null(world: RuntimeWorld) -> None:
    apply_all(world, invoice(result=None))
    run_id = world.run("Parent", [child_step("pay", "Invoice")], workflow={"result": {"step": "pay"}})
    assert world.until_ended(run_id).result == "null"


def test_the_failure_of_a_child_is_that_of_its_step(world: RuntimeWorld) -> None:
    apply_all(world, invoice(agent="fail"))
    run_id = world.run("Parent", [child_step("pay", "Invoice")])
    row = world.until_ended(run_id)

    (child,) = children(world, run_id)
    assert (row.status, row.error_code) == ("failed", "node_failed")
    assert f"run {child.run_id} failed with node_failed: Step 'count' failed" in row.error_message
    (failed,) = [event for event in world.events(run_id, page_size=500).events if event.type == "step.failed"]
    assert json.loads(failed.data)["type"] == "ChildFailed"


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"total": "many"}, "its parameters do not fit workflow 'Invoice': total must be an integer"),
        ({"other": 1}, "its parameters do not fit workflow 'Invoice': other is not a parameter"),
        ({"total": "=1 / int(run.version - 1)"}, "divide by zero"),
    ],
)
def test_a_child_that_cannot_be_started_fails_its_step(
    world: RuntimeWorld, parameters: dict[str, Any], said: str
) -> None:
    apply_all(world, invoice())
    run_id = world.run("Parent", [child_step("pay", "Invoice", parameters=parameters)])
    row = world.until_ended(run_id)
    assert row.status == "failed"
    assert said in row.error_message
    assert children(world, run_id) == []


def test_a_workflow_that_became_inactive_starts_no_child(world: RuntimeWorld) -> None:
    apply_all(world, invoice())
    run_id = world.run("Parent", [gate("wait"), child_step("pay", "Invoice", "wait")])
    world.until_status(run_id, "waiting_for_approval")
    world.switch("Invoice", active=False)
    world.decide(world.approvals(run_id)["wait"], True)
    assert "not active" in world.until_ended(run_id).error_message


def nested(world: RuntimeWorld, deep: int) -> str:
    """Applies workflows of which each starts the next one, the deepest first; returns the name of the outermost."""
    apply_all(world, manifest("Nested 0", [agent_step("count", "given")], result=RESULT))
    for number in range(1, deep + 1):
        steps = [child_step("down", f"Nested {number - 1}")]
        apply_all(world, manifest(f"Nested {number}", steps, result={"step": "down"}))
    return f"Nested {deep}"


def test_workflows_nest_three_deep(world: RuntimeWorld) -> None:
    run_id = world.started(nested(world, 3))
    assert world.until_ended(run_id).status == "completed"
    assert sorted(row.depth for row in world.dump("runs")) == [0, 1, 2, 3]


def test_a_workflow_that_nests_four_deep_is_not_ready(world: RuntimeWorld) -> None:
    with pytest.raises(RefusedError) as refused:
        world.started(nested(world, 4))
    (reason,) = refused.value.reasons
    assert reason.endswith("Workflow 'Nested 0' of step 'down' would be started more than 3 deep.")


def test_a_child_of_the_fourth_depth_is_refused(world: RuntimeWorld) -> None:
    """Readiness was judged when the parents began; a version that is applied meanwhile nests one deeper."""
    nested(world, 2)
    apply_all(world, manifest("Nested 3", [gate("wait"), child_step("down", "Nested 2", "wait")]))
    run_id = world.started("Nested 3")
    world.until_status(run_id, "waiting_for_approval")
    apply_all(
        world,
        manifest("Nested -1", [agent_step("count", "given")]),
        manifest("Nested 0", [gate("stop"), child_step("down", "Nested -1", "stop")]),
    )
    world.decide(world.approvals(run_id)["wait"], True)
    until(lambda: world.count("runs", "depth = 3 AND status = 'waiting_for_approval'"), "the deepest run")
    (deepest,) = world.dump("runs WHERE depth = 3")
    world.decide(world.approvals(deepest.run_id)["stop"], True)
    assert "a run may start workflows at most 3 deep" in world.until_ended(run_id).error_message
    assert world.count("runs") == 4


def test_a_run_has_a_hundred_children_at_most(world: RuntimeWorld) -> None:
    apply_all(world, invoice())
    steps = [gate("wait"), child_step("pay", "Invoice", "wait")]
    run_id = world.run("Parent", steps)
    world.until_status(run_id, "waiting_for_approval")
    others_key = world.new_key(max_concurrent_runs=100)
    others = [world.started("Gated", key=others_key) for _ in range(100)]
    adopt = Command(update(runs).where(runs.c.run_id == bindparam("of")).values(parent_run_id=run_id))
    world.services.database.write(lambda tx: tx.many(adopt, [{"of": other} for other in others]))
    world.decide(world.approvals(run_id)["wait"], True)
    assert "at most 100" in world.until_ended(run_id).error_message


def test_children_are_in_no_list_and_take_no_slot_and_no_quota(world: RuntimeWorld) -> None:
    apply_all(world, invoice(agent="sleeper"))
    world.key = world.new_key(max_concurrent_runs=1, daily_run_quota=1)
    run_id = world.run("Parent", [child_step("pay", "Invoice")], labels={"of": "us"}, client_reference="ours")
    child = until_child(world, run_id)

    def listed(**fields: Any) -> list[str]:
        found = world.runs("ListRuns", runs_pb2.ListRunsRequest(**fields), world.key)
        return [item.run_id for item in found.items]

    running, workflow = [runs_pb2.RUN_STATUS_RUNNING], world.workflows["Invoice"]
    assert listed() == listed(status=running) == listed(client_reference="ours") == [run_id]
    assert listed(workflow_id=workflow) == listed(workflow_id=workflow, status=running) == []
    record = world.keys("GetKey", keys_pb2.GetKeyRequest(key_id=world.key)).key
    assert (record.active_runs, record.quota_used_today) == (1, 1)
    assert world.get(child.run_id).parent_run_id == run_id
    assert not world.get(run_id).HasField("parent_run_id")
    assert list(world.steps(child.run_id)) == ["count"]
    assert world.events(child.run_id).events
    with pytest.raises(RefusedError) as refused:
        world.get(child.run_id, world.new_key())
    assert refused.value.reason == "run_not_found"
    world.cancel(run_id)
    world.until_ended(child.run_id)
    assert listed(status=[runs_pb2.RUN_STATUS_CANCELLED], workflow_id=workflow) == []


@pytest.mark.parametrize("deep", [1, 2])
def test_a_cancelled_run_cancels_those_below_it(world: RuntimeWorld, deep: int) -> None:
    apply_all(world, invoice(agent="sleeper"), manifest("Between", [child_step("down", "Invoice")]))
    run_id = world.run("Parent", [child_step("down", "Invoice" if deep == 1 else "Between")])
    below = until_child(world, run_id)
    if deep == 2:
        below = until_child(world, below.run_id)
    world.until_event(below.run_id, "step.progress")
    world.cancel(run_id)
    assert world.until_ended(run_id).status == "cancelled"
    assert world.until_ended(below.run_id).status == "cancelled"
    assert world.board(below.run_id) == {"count": "cancelled"}


def test_the_failure_of_another_step_cancels_a_child(world: RuntimeWorld) -> None:
    apply_all(
        world,
        invoice(agent="sleeper"),
        manifest("Fails", [agent_step("wait", "waiter"), agent_step("bad", "fail", "wait")]),
    )
    run_id = world.run("Parent", [child_step("pay", "Invoice"), child_step("bad", "Fails")])
    row = world.until_ended(run_id)
    assert (row.status, row.error_code) == ("failed", "node_failed")
    until(lambda: not world.count("runs", "finished_at IS NULL"), "the end of the other child")
    assert sorted(child.status for child in children(world, run_id)) == ["cancelled", "failed"]


def test_a_child_that_is_cancelled_by_itself_fails_its_step(world: RuntimeWorld) -> None:
    apply_all(world, invoice(agent="sleeper"))
    run_id = world.run("Parent", [child_step("pay", "Invoice")])
    child = until_child(world, run_id)
    world.cancel(child.run_id)
    assert f"run {child.run_id} was cancelled" in world.until_ended(run_id).error_message


def test_the_time_limit_of_a_run_ends_its_children(world: RuntimeWorld) -> None:
    apply_all(world, invoice(agent="sleeper"))
    run_id = world.run("Parent", [child_step("pay", "Invoice")], workflow={"settings": {"max_run_hours": 0.25}})
    child = until_child(world, run_id)
    world.clock.advance(hours=1)
    assert world.until_ended(run_id).error_code == "wall_clock_limit_reached"
    assert world.until_ended(child.run_id).status == "cancelled"


def test_a_child_that_waits_for_a_person_holds_its_parent(world: RuntimeWorld) -> None:
    apply_all(
        world, manifest("Asks", [gate("review"), agent_step("after", "echo", "review")], result={"step": "after"})
    )
    run_id = world.run("Parent", [child_step("ask", "Asks")], workflow={"result": {"step": "ask"}})
    child = until_child(world, run_id, "waiting_for_approval")
    assert world.status(run_id) == "running"
    world.decide(world.approvals(child.run_id)["review"], True)
    assert json.loads(world.until_ended(run_id).result)["needs"]["review"]["decision"] == "approved"


def test_a_parked_child_is_cancelled_with_its_parent(world: RuntimeWorld) -> None:
    apply_all(world, manifest("Asks", [gate("review")]))
    run_id = world.run("Parent", [child_step("ask", "Asks")])
    child = until_child(world, run_id, "waiting_for_approval")
    world.cancel(run_id)
    assert world.until_ended(run_id).status == "cancelled"
    assert world.status(child.run_id) == "cancelled"


def test_a_child_whose_start_is_not_committed_yet_is_cancelled_with_its_step(
    world: RuntimeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parent stops in the transaction that starts the child, and then goes on with its last steps."""
    attempts: list[asyncio.Task[Any]] = []
    looked = threading.Event()
    run, start, cancel = ChildRun.run, ChildStarter.start, lifecycle.cancel_child

    async def run_of_task(self: ChildRun) -> Any:
        task = asyncio.current_task()
        assert task is not None
        attempts.append(task)
        return await run(self)

    def slow_start(self: ChildStarter, tx: Tx, child: NewChild, inputs: ValidatedInputs) -> None:
        start(self, tx, child, inputs)
        world.clock.advance(hours=1)
        world.engine.cancel(child.segment_id)
        until(attempts[0].cancelling, "the cancellation of the attempt")
        # Nothing sets it; a cancellation that did not wait for the start would.
        looked.wait(1)

    def cancel_child(tx: Tx, run_id: str, at: int) -> None:
        cancel(tx, run_id, at)
        looked.set()

    monkeypatch.setattr(ChildRun, "run", run_of_task)
    monkeypatch.setattr(ChildStarter, "start", slow_start)
    monkeypatch.setattr("backend.runtime.execution.child_run.cancel_child", cancel_child)
    apply_all(world, invoice(agent="sleeper"))
    more = {"settings": {"max_run_hours": 0.25}, "always": [{"step": "clean", "agent": "sleeper"}]}
    run_id = world.run("Parent", [child_step("pay", "Invoice")], workflow=more)
    until(lambda: children(world, run_id), "the child")
    (child,) = children(world, run_id)
    assert world.until_ended(child.run_id).status == "cancelled"
    assert world.status(run_id) == "running", "at its last steps"


LAST = {"on_failure": [{"step": "alarm", "agent": "echo"}], "always": [{"step": "clean", "agent": "echo"}]}


@pytest.mark.parametrize("how", ["cancelled", "closed by another process"])
def test_the_last_steps_of_a_parked_child_run_when_its_parent_ends(world: RuntimeWorld, how: str) -> None:
    apply_all(world, manifest("Asks", [agent_step("first"), gate("review", "first")], **LAST))
    run_id = world.run("Parent", [child_step("ask", "Asks")])
    child = until_child(world, run_id, "waiting_for_approval")
    if how == "cancelled":
        world.cancel(run_id)
    else:
        world.close(run_id, "failed", error_code="orphaned", error_message="The runtime was interrupted.")
    assert world.until_ended(child.run_id).status == "cancelled"
    assert world.board(child.run_id) == {
        "first": "completed", "review": "cancelled", "alarm": "skipped", "clean": "completed"
    }  # fmt: skip
    assert world.approvals(child.run_id) == {}
    world.until_ended(run_id)


def test_erasing_a_run_ends_a_child_that_is_still_at_its_last_steps(world: RuntimeWorld) -> None:
    last = [{"step": "clean", "agent": "sleeper"}]
    apply_all(world, manifest("Asks", [agent_step("first"), gate("review", "first")], always=last))
    run_id = world.run("Parent", [child_step("ask", "Asks")])
    child = until_child(world, run_id, "waiting_for_approval")
    world.cancel(run_id)
    world.until_ended(run_id)
    world.until_status(child.run_id, "running")
    world.erase(run_id)
    row = world.row(child.run_id)
    assert (row.status, row.data_purged_at is not None) == ("cancelled", True)


def test_erasing_a_run_erases_its_children(world: RuntimeWorld) -> None:
    apply_all(world, invoice(agent="writer"))
    run_id = world.run("Parent", [child_step("pay", "Invoice")])
    world.until_ended(run_id)
    (child,) = children(world, run_id)
    world.erase(run_id)
    assert world.row(child.run_id).data_purged_at is not None
    assert (
        world.count("events", f"segment_id in (select segment_id from segments where run_id = '{child.run_id}')") == 0
    )
    until(lambda: not world.stored_below(f"runs/{child.run_id}").exists(), "the removal of the child's objects")


def test_a_child_that_was_erased_before_its_parent_leaves_the_parent_its_value(world: RuntimeWorld) -> None:
    apply_all(world, invoice())
    run_id = world.run("Parent", [child_step("pay", "Invoice")], workflow={"result": {"step": "pay"}})
    world.until_ended(run_id)
    (child,) = children(world, run_id)
    world.erase(child.run_id)
    assert world.row(run_id).result is not None
    world.erase(run_id)
    assert world.row(run_id).data_purged_at is not None


def test_runs_that_wait_for_children_keep_none_from_running(world: RuntimeWorld) -> None:
    """Twenty parents on two slots: more than there are segments."""
    apply_all(world, invoice())
    apply_all(world, manifest("Parent", [child_step("pay", "Invoice"), agent_step("after", "echo", "pay")]))
    world.key = world.new_key(max_concurrent_runs=20)
    world.local_runtime.stop()
    world.local_runtime = world.new_runtime(world.folder / "narrow", step_slots=2)
    world.local_runtime.start()
    run_ids = [world.started("Parent") for _ in range(20)]
    assert {world.until_ended(run_id).status for run_id in run_ids} == {"completed"}


def test_retention_erases_children_with_their_parent(world: RuntimeWorld) -> None:
    apply_all(world, invoice())
    run_id = world.run("Parent", [child_step("pay", "Invoice"), gate("wait", "pay")])
    world.until_status(run_id, "waiting_for_approval")
    (child,) = children(world, run_id)
    world.clock.advance(days=91)
    rule = RunDataRetention(world.local_runtime)
    world.services.database.write(lambda tx: rule.delete_batch(tx, world.clock()))
    assert world.row(child.run_id).data_purged_at is None
    world.cancel(run_id)
    world.clock.advance(days=91)
    world.services.database.write(lambda tx: rule.delete_batch(tx, world.clock()))
    assert world.row(run_id).data_purged_at is not None
    assert world.row(child.run_id).data_purged_at is not None


def test_the_end_of_a_child_goes_to_no_webhook(world: RuntimeWorld) -> None:
    hooks = Caller(
        WebhooksServicer(world.services, WebhookSettings()), webhooks_pb2.DESCRIPTOR.services_by_name["WebhooksService"]
    )
    request = webhooks_pb2.CreateWebhookRequest(key_id=world.key, url="https://example.org/hook")
    hooks("CreateWebhook", request)
    apply_all(world, invoice())
    run_id = world.run("Parent", [child_step("pay", "Invoice")])
    world.until_ended(run_id)
    world.erase(run_id)
    told = [(row.run_id, row.event) for row in world.dump("webhook_deliveries")]
    assert told == [(run_id, "run.ended"), (run_id, "run.erased")]


def test_personal_data_in_the_result_of_a_child_is_swept_as_a_value_of_its_step(world: RuntimeWorld) -> None:
    apply_all(world, invoice(parameters=[{"name": "note", "type": "string"}]))
    policy = {"mode": "redact", "categories": ["EMAIL_ADDRESS"], "stages": ["steps"]}
    steps = [
        child_step("pay", "Invoice", parameters={"note": "to ada@example.com"}),
        agent_step("after", "echo", "pay"),
    ]
    run_id = world.run("Parent", steps, workflow={"pii_policy": policy, "result": {"step": "after"}})
    row = world.until_ended(run_id)
    assert json.loads(row.result)["needs"]["pay"]["note"] == "to [EMAIL_ADDRESS]"
    (child,) = children(world, run_id)
    assert json.loads(child.result)["note"] == "to ada@example.com", "the child's own policy is off"


def test_a_result_that_a_childs_policy_sweeps_is_waited_for(world: RuntimeWorld) -> None:
    policy = {"mode": "redact", "categories": ["EMAIL_ADDRESS"], "stages": ["outputs"]}
    apply_all(world, invoice(parameters=[{"name": "note", "type": "string"}], pii_policy=policy))
    steps = [child_step("pay", "Invoice", parameters={"note": "to ada@example.com"})]
    run_id = world.run("Parent", steps, workflow={"result": {"step": "pay"}})
    assert json.loads(world.until_ended(run_id).result)["note"] == "to [EMAIL_ADDRESS]"


def test_a_resumed_run_reuses_a_completed_child_and_starts_a_failed_one_anew(world: RuntimeWorld) -> None:
    apply_all(world, invoice(), invoice("Other", agent="fail"))
    steps = [child_step("pay", "Invoice"), child_step("more", "Other", "pay")]
    ended = world.run("Parent", steps)
    world.until_ended(ended)
    first, failed = children(world, ended)

    def resume(run_id: str, **fields: Any) -> Any:
        request = runs_pb2.ResumeRunRequest(run_id=run_id, idempotency_key=f"again {run_id}", **fields)
        return world.runs("ResumeRun", request)

    apply_all(world, invoice("Other"))
    resumed = resume(ended)
    assert list(resumed.reused) == ["pay"]
    run_id = resumed.run.summary.run_id
    assert world.until_ended(run_id).status == "completed"
    assert [child.parent_step for child in children(world, run_id)] == ["more"]
    with pytest.raises(RefusedError) as refused:
        resume(failed.run_id)
    assert ended in refused.value.problems["run_id"]
    apply_all(world, invoice(agent="writer"))
    why = {step.step: step.why for step in resume(ended, dry_run=True).executed}
    assert why["pay"] == "Workflow 'Invoice' has changed."
    assert first.status == "completed"


def test_people_find_children_under_their_parent(world: RuntimeWorld) -> None:
    apply_all(world, invoice())
    run_id = world.run("Parent", [child_step("pay", "Invoice")])
    world.until_ended(run_id)
    lists = Caller(
        RunListsServicer(world.services, RunDays(world.services)),
        run_lists_pb2.DESCRIPTOR.services_by_name["RunListsService"],
    )
    (child,) = lists("ListChildRuns", run_lists_pb2.ListChildRunsRequest(run_id=run_id)).items
    assert (child.step, child.HasField("item_index"), child.run.status) == ("pay", False, runs_pb2.RUN_STATUS_COMPLETED)
    for search in ("", child.run.run_id):
        found = lists("ListFoundRuns", run_lists_pb2.ListFoundRunsRequest(search=search)).items
        assert child.run.run_id not in {each.run.run_id for each in found}
    assert world.get(child.run.run_id, None).parent_step == "pay"


def test_a_run_that_another_process_closes_has_its_children_cancelled(world: RuntimeWorld) -> None:
    apply_all(world, invoice(agent="sleeper"), manifest("Asks", [gate("review")]))
    run_id = world.run("Parent", [child_step("pay", "Invoice"), child_step("ask", "Asks")])
    until_child(world, run_id, "waiting_for_approval")
    world.close(run_id, "failed", error_code="orphaned", error_message="The runtime was interrupted.")
    until(lambda: not world.count("runs", "finished_at IS NULL"), "the end of the children")
    assert {child.status for child in children(world, run_id)} == {"cancelled"}


def test_the_end_of_a_child_whose_announcement_was_lost_is_found(
    world: RuntimeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Subscription, "add", lambda *_: None)
    monkeypatch.setattr("backend.runtime.execution.child_run.CHECK_SECONDS", 0.2)
    apply_all(world, invoice())
    run_id = world.run("Parent", [child_step("pay", "Invoice")])
    assert world.until_ended(run_id).status == "completed"


DOUBLED = """
kind: Agent
name: doubler
type: python
code: |
  def run(context):
      if context.parameters["number"] == 3:
          raise ValueError("three")
      return context.parameters["number"] * 2
---
kind: Agent
name: numbers
type: python
code: |
  def run(context):
      return [1, 2, 3, 4]
---
kind: Workflow
name: Double
status: active
parameters: [{name: number, type: integer, required: true}, {name: place, type: integer}]
steps: [{step: double, agent: doubler}]
result: {step: double}
"""
EACH: dict[str, Any] = {
    "step": "each",
    "workflow": "Double",
    "needs": ["list"],
    "for_each": "needs.list",
    "on_item_failure": "collect",
    "parameters": {"number": "=item", "place": "=item_index"},
}


def test_a_fan_out_starts_a_child_for_each_item_and_gathers_their_results(world: RuntimeWorld) -> None:
    world.apply(DOUBLED)
    steps = [agent_step("list", "numbers"), EACH]
    world.workflows |= world.apply(manifest("Each doubled", steps, result={"step": "each"}))
    run = world.until_ended(world.started("Each doubled"))
    values = json.loads(run.result)
    assert (run.status, [values[index] for index in (0, 1, 3)]) == ("completed", [2, 4, 8])
    assert values[2]["error"]["type"] == "ChildFailed"
    children = world.dump(f"runs WHERE parent_run_id = '{run.run_id}' ORDER BY parent_item")
    assert [(row.parent_item, row.status) for row in children] == [
        (0, "completed"), (1, "completed"), (2, "failed"), (3, "completed")
    ]  # fmt: skip
    (step,) = world.dump(f"steps WHERE run_id = '{run.run_id}' AND step = 'each'")
    assert (step.items_total, step.items_completed, step.items_failed) == (4, 3, 1)


def test_a_resumed_fan_out_keeps_the_results_of_children_that_completed(world: RuntimeWorld) -> None:
    world.apply(DOUBLED)
    each = {**EACH, "on_item_failure": "fail", "max_parallel": 1}
    world.workflows |= world.apply(
        manifest("Each once", [agent_step("list", "numbers"), each], result={"step": "each"})
    )
    ended = world.until_ended(world.started("Each once"))
    assert ended.error_code == "node_failed"
    request = runs_pb2.ResumeRunRequest(run_id=ended.run_id, idempotency_key="again")
    resumed = world.until_ended(world.runs("ResumeRun", request).run.summary.run_id)
    assert resumed.status == "failed", "the third item fails once more"
    begun = [row.parent_item for row in world.dump(f"runs WHERE parent_run_id = '{resumed.run_id}'")]
    assert begun == [2]
