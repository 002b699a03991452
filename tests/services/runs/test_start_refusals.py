"""The order of checks inside a start. (contract 12.6)"""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from backend.common.metrics import DATABASE_QUEUE
from backend.services.model_usage.sql import AttemptUsage, record
from backend.storage.database import Tx
from tests.services.calls import RefusedError
from tests.services.runs.world import World
from tests.support.poll import LONGEST_WAIT_SECONDS, until
from workflow_api.v1 import deployment_pb2, keys_pb2, runs_pb2
from workflow_api.v1.pii_policy_pb2 import PII_MODE_REDACT

BAD = {"parameters": {"language": "de"}, "pii_policy_override": {"mode": "off", "max_model_calls": -1}}


def refusal(world: World, *args: Any, **fields: Any) -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        world.start(*args, **fields)
    return caught.value


def explicit(*workflow_ids: str) -> keys_pb2.WorkflowAccess:
    return keys_pb2.WorkflowAccess(mode=keys_pb2.WorkflowAccess.MODE_EXPLICIT, workflow_ids=workflow_ids)


def hold_licence(world: World) -> None:
    world.deployment(
        "UpdateDeployment",
        deployment_pb2.UpdateDeploymentRequest(
            licence_state="hold",
            licence_reason="unpaid",
            licence_enforcement_status="blocking",
            license_id="lic-1",
        ),
    )


def test_an_unknown_workflow_is_not_found(world: World) -> None:
    assert refusal(world, "wf_unknown").reason == "workflow_not_found"


def test_a_workflow_outside_the_allow_list_is_as_if_it_did_not_exist(world: World) -> None:
    key = world.new_key(workflow_access=explicit(world.workflows["Plain"]))
    assert world.start("Plain", key=key).run.key_id == key
    refused = refusal(world, "Gated", key=key)
    unknown = refusal(world, "wf_unknown", key=key)
    assert (refused.reason, refused.message) == (unknown.reason, unknown.message)


def test_the_allow_list_is_checked_before_the_status(world: World) -> None:
    key = world.new_key(workflow_access=explicit(world.workflows["Plain"]))
    assert refusal(world, "Draft", key=key).reason == "workflow_not_found"
    listed = world.new_key(workflow_access=explicit(world.workflows["Draft"]))
    assert refusal(world, "Draft", key=listed).reason == "workflow_not_active"


def test_a_draft_or_inactive_workflow_is_not_active_whatever_version_is_asked_for(world: World) -> None:
    assert refusal(world, "Draft", version=9).reason == "workflow_not_active"
    world.switch("Plain", active=False)
    assert refusal(world, version=9).reason == "workflow_not_active"


@pytest.mark.parametrize("version", [2, 2**31, 2**63 - 1])
def test_a_version_that_does_not_exist_is_not_found_before_readiness(world: World, version: int) -> None:
    assert refusal(world, "Unready", version=version).reason == "version_not_found"


def test_an_existing_version_is_run_although_another_is_active(world: World) -> None:
    world.apply(MANY_STEPS)
    assert world.start().run.summary.version == 2
    older = world.start(version=1).run.summary
    assert (older.version, older.counts.steps_total) == (1, 2)


def test_a_workflow_that_is_not_ready_says_every_reason(world: World) -> None:
    refused = refusal(world, "Unready", **BAD)
    assert refused.reason == "workflow_not_ready"
    assert refused.reasons == ("Step 'second' has no agent.", "Environment 'off' is not active.")


def test_a_licence_on_hold_refuses_before_the_parameters_are_judged(world: World) -> None:
    hold_licence(world)
    refused = refusal(world, **BAD)
    assert refused.reason == "license_unavailable"
    assert refused.metadata == {
        "state": "hold",
        "reason": "unpaid",
        "enforcement_status": "blocking",
        "license_id": "lic-1",
    }
    assert refusal(world, "Unready").reason == "workflow_not_ready"


def test_parameters_are_judged_before_the_policy(world: World) -> None:
    refused = refusal(world, parameters={"language": "de", "count": 0, "other": 1}, pii_policy_override=1)
    assert refused.reason == "invalid_parameters"
    assert set(refused.problems) == {"language", "count", "other"}


def test_the_policy_is_judged_before_the_slot(world: World) -> None:
    key = world.new_key(max_concurrent_runs=1)
    world.start(key=key)
    refused = refusal(world, key=key, pii_policy_override={"mode": "loud"})
    assert (refused.reason, refused.metadata) == ("invalid_pii_policy", {"field": "mode"})
    loosened = refusal(world, "Swept", key=key, pii_policy_override={"mode": "off"})
    assert (loosened.reason, loosened.metadata) == ("policy_not_tightening", {"field": "mode"})


def test_the_slot_is_judged_before_the_quota_and_uses_none_of_it(world: World) -> None:
    key = world.new_key(max_concurrent_runs=1, daily_run_quota=1)
    world.start(key=key)
    refused = refusal(world, key=key)
    assert (refused.reason, refused.retry_after) == ("too_many_active_runs", 5)
    assert refused.message == "1 run is in flight and the limit of this key is 1; wait for one to finish."
    assert world.count("daily_usage", f"key_id = '{key}' AND runs_started = 1") == 1


def test_a_slot_refusal_names_the_runs_in_flight_and_the_limit_after_it_was_lowered(world: World) -> None:
    key = world.new_key(max_concurrent_runs=3)
    for _ in range(3):
        world.start(key=key)
    world.keys("UpdateKey", keys_pb2.UpdateKeyRequest(key_id=key, max_concurrent_runs=2))
    assert refusal(world, key=key).message == (
        "3 runs are in flight and the limit of this key is 2; wait for one to finish."
    )


def test_a_run_that_ended_frees_its_slot(world: World) -> None:
    key = world.new_key(max_concurrent_runs=1)
    run_id = world.started(key=key)
    world.close(run_id, "cancelled")
    world.start(key=key)


def test_a_parked_run_holds_its_slot(world: World) -> None:
    key = world.new_key(max_concurrent_runs=1)
    run_id = world.started("Gated", key=key)
    world.park(run_id, world.begin(run_id), "review")
    assert refusal(world, key=key).reason == "too_many_active_runs"


def test_the_quota_is_that_of_the_utc_day(world: World) -> None:
    key = world.new_key(daily_run_quota=2)
    for _ in range(2):
        world.start(key=key)
    refused = refusal(world, key=key)
    assert refused.reason == "quota_exceeded"
    assert refused.message == "The daily quota of 2 runs is used up; it resets at 00:00 UTC."
    assert refused.retry_after is not None
    world.clock.advance(seconds=refused.retry_after - 1)
    assert refusal(world, key=key).retry_after == 1
    world.clock.advance(seconds=1)
    world.start(key=key)


@pytest.mark.parametrize(
    ("limit", "quota"),
    [
        ({"daily_tokens": 1_500}, "1,500 tokens is used up (2,000)"),
        ({"daily_cost_microusd": 2_500_000}, "2.50 US dollars of models is used up (3.00)"),
    ],
)
def test_a_day_whose_use_of_models_passed_the_limit_refuses_starts(
    world: World, limit: dict[str, int], quota: str
) -> None:
    key, free = world.new_key(**limit), world.new_key()

    def use(key: str, name: str) -> None:
        run_id = world.start(key=key).run.summary.run_id
        usage = AttemptUsage(name, -1, 1, "openai:gpt-5", 1, 900, 100, 0, 1_500_000)
        world.services.database.write(lambda tx: record(tx, run_id, world.clock(), [usage]))

    for name in ("first", "second"):
        use(key, name)
        use(free, name)
    refused = refusal(world, key=key)
    assert (refused.reason, refused.message) == (
        "quota_exceeded",
        f"The daily quota of {quota}; it resets at 00:00 UTC.",
    )
    assert refused.retry_after is not None
    world.start(key=free)
    world.clock.advance(seconds=refused.retry_after)
    world.start(key=key)


def test_a_refused_start_leaves_nothing_but_its_binding(world: World) -> None:
    refusal(world, parameters={"language": "de"})
    for table in ("runs", "steps", "segments", "daily_usage"):
        assert world.count(table) == 0
    assert world.count("idempotency_records", "run_id IS NULL") == 1
    assert world.runtime.woken == 0


def test_an_internal_caller_has_neither_slot_nor_quota_nor_allow_list(world: World) -> None:
    run = world.start(key=None).run
    assert not run.HasField("key_id")
    assert world.count("daily_usage") == 0
    assert refusal(world, "Draft", key=None).reason == "workflow_not_active"


def test_a_deleted_key_is_unauthorized_and_binds_nothing(world: World) -> None:
    assert refusal(world, key="ak_gone").reason == "unauthorized"
    assert world.count("idempotency_records") == 0


@pytest.mark.parametrize("text", ['{"a": NaN}', '{"a": 1e999}', '{"a": "\\ud800"}'])
def test_json_that_only_python_accepts_is_refused(world: World, text: str) -> None:
    refused = refusal(world, parameters=text)
    assert refused.reason == "invalid_request"
    assert set(refused.problems) == {"parameters"}


def test_an_override_becomes_the_policy_of_the_run(world: World) -> None:
    run = world.start("Swept", pii_policy_override={"mode": "redact"}).run
    assert run.pii_policy.mode == PII_MODE_REDACT
    assert '"mode":"redact"' in run.pii_redaction


MANY_STEPS = """
kind: Workflow
name: Plain
status: active
steps:
  - {step: only, agent: worker, environment: standard}
"""


def started_together(world: World, requests: list[runs_pb2.StartRunRequest], key: str) -> list[str | RefusedError]:
    """Starts runs at once; an embedded database decides them in one transaction, because its writer is busy.

    Returns the id of each run, or why there is none.
    """
    entered, release = threading.Event(), threading.Event()

    def hold(_: Tx) -> None:
        entered.set()
        assert release.wait(LONGEST_WAIT_SECONDS)

    def start(request: runs_pb2.StartRunRequest) -> str | RefusedError:
        try:
            return str(world.runs("StartRun", request, key).run.summary.run_id)
        except RefusedError as error:
            return error

    def waiting() -> float:
        families = {family.name: family for family in world.services.database.measured()}
        return sum(sample.value for sample in families[DATABASE_QUEUE.name].samples)

    with ThreadPoolExecutor(len(requests) + 1) as threads:
        if world.services.database.remote:
            return list(threads.map(start, requests))
        held = threads.submit(world.services.database.write, hold)
        assert entered.wait(LONGEST_WAIT_SECONDS)
        starting = [threads.submit(start, request) for request in requests]
        until(lambda: waiting() + sum(each.done() for each in starting) == len(requests), "all starts to wait")
        release.set()
        held.result()
        return [each.result() for each in starting]


def test_of_starts_that_one_transaction_decides_each_sees_those_before_it(world: World) -> None:
    key = world.new_key(max_concurrent_runs=3, daily_run_quota=4)
    world.started(key=key)
    requests = [
        runs_pb2.StartRunRequest(workflow_id=world.workflows["Plain"], idempotency_key=f"k{number}")
        for number in range(4)
    ]
    decided = started_together(world, requests, key)
    assert [one.reason for one in decided if isinstance(one, RefusedError)] == ["too_many_active_runs"] * 2
    assert world.count("runs", f"key_id = '{key}'") == 3
    assert world.count("idempotency_records", f"key_id = '{key}'") == 5
    assert world.count("daily_usage", f"key_id = '{key}' AND runs_started = 3") == 1


def test_of_starts_that_one_transaction_decides_each_is_compared_with_its_own_record(world: World) -> None:
    key = world.new_key(max_concurrent_runs=50)
    bound = {number: world.started(idempotency_key=f"k{number}", key=key) for number in (0, 17, 18)}
    workflow_id = world.workflows["Plain"]
    requests = [runs_pb2.StartRunRequest(workflow_id=workflow_id, idempotency_key=f"k{number}") for number in range(20)]
    requests[18].client_reference = "another body"
    decided = started_together(world, requests, key)
    conflict = decided[18]
    assert isinstance(conflict, RefusedError)
    assert conflict.reason == "idempotency_conflict"
    found = {number: one for number, one in enumerate(decided) if isinstance(one, str)}
    assert (found[0], found[17]) == (bound[0], bound[17])
    assert len(set(found.values())) == 19
    assert world.count("runs", f"key_id = '{key}'") == 20
