import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from backend.services.dependencies import Services
from tests.services.calls import RefusedError
from tests.services.conftest import TestClock
from tests.services.runtime.conftest import RuntimeWorld, agent_step, gate
from workflow_api.v1 import runs_pb2

ONLINE: Final = {"kind": "Environment", "name": "online", "network": "full"}


def test_a_run_completes_with_its_outputs_events_and_result(world: RuntimeWorld) -> None:
    run_id = world.run(
        "Whole",
        [agent_step("write", "writer")],
        workflow={"result": {"step": "write", "schema": {"type": "object", "required": ["words"]}}},
        input_text="one two",
    )
    row = world.until_ended(run_id)
    assert (row.status, row.outputs_count, row.steps_completed) == ("completed", 3, 1)
    assert json.loads(row.result) == {"words": 3, "summary_markdown": "# Three"}
    assert row.summary_markdown == "# Three"
    assert world.event_types(run_id) == [
        "segment.started",
        "run.started",
        "step.started",
        "step.completed",
        "output.promoted",
        "output.promoted",
        "output.promoted",
        "run.completed",
        "segment.ended",
    ]
    promoted = [
        json.loads(event.data)["path"] for event in world.events(run_id).events if event.type == "output.promoted"
    ]
    assert promoted == ["result.json", "write/notes/a.txt", "write/table.csv"]
    step = world.steps(run_id)["write"]
    assert (step.status, step.attempt) == (runs_pb2.STEP_STATUS_COMPLETED, 1)
    assert step.HasField("started_at")
    assert step.HasField("finished_at")


def test_the_bytes_of_an_output_are_in_the_object_store(world: RuntimeWorld) -> None:
    run_id = world.run("Bytes", [agent_step("write", "writer")], input_text="one two")
    world.until_ended(run_id)
    key = next(
        f"runs/{run_id}/{data['output_id']}"
        for data in (json.loads(event.data) for event in world.events(run_id).events if event.type == "output.promoted")
        if data["path"] == "write/notes/a.txt"
    )
    assert b"".join(world.objects.open_range(key, 0, 7)) == b"one two"


def test_a_step_gets_the_values_of_the_steps_that_it_needs(world: RuntimeWorld) -> None:
    run_id = world.run(
        "Needs",
        [agent_step("first", "writer"), agent_step("second", "echo", "first")],
        workflow={"result": {"step": "second"}},
    )
    result = json.loads(world.until_ended(run_id).result)
    assert result["needs"] == {"first": {"words": 3, "summary_markdown": "# Three"}}


def _shape(kind: str) -> list[dict[str, Any]]:
    names = [f"s{number}" for number in range(20)]
    chance = random.Random(kind)
    needs: dict[str, list[str]] = {
        "chain": {name: names[index - 1 : index] if index else [] for index, name in enumerate(names)},
        "fan": {name: names[:1] if index else [] for index, name in enumerate(names)},
        "join": {name: names[:-1] if index == 19 else [] for index, name in enumerate(names)},
        "random": {name: chance.sample(names[:index], min(index, 3)) for index, name in enumerate(names)},
        "backwards": {name: names[index + 1 : index + 2] for index, name in enumerate(names)},
    }[kind]
    return [agent_step(name, "name", *needs[name]) for name in names]


@pytest.mark.parametrize("kind", ["chain", "fan", "join", "random", "backwards"])
def test_twenty_steps_at_ten_in_parallel_each_run_once_after_their_needs(world: RuntimeWorld, kind: str) -> None:
    steps = _shape(kind)
    run_id = world.run(f"Shape {kind}", steps, workflow={"settings": {"parallel_steps": 10}})
    assert world.until_ended(run_id).status == "completed"
    began: list[str] = []
    done: set[str] = set()
    running = most = 0
    events = world.events(run_id, page_size=500).events
    needs = {step["step"]: step["needs"] for step in steps}
    for event in events:
        if event.type == "step.started":
            assert done.issuperset(needs[event.step]), event.step
            began.append(event.step)
            running += 1
            most = max(most, running)
        elif event.type == "step.completed":
            done.add(event.step)
            running -= 1
    assert sorted(began) == sorted(needs)
    assert most <= 10
    assert [event.seq for event in events] == list(range(1, len(events) + 1))


def test_no_more_steps_run_at_once_than_the_workflow_says(world: RuntimeWorld) -> None:
    run_id = world.run("Pair", [agent_step(f"s{n}") for n in range(8)], workflow={"settings": {"parallel_steps": 2}})
    world.until_ended(run_id)
    running = 0
    for event in world.events(run_id).events:
        running += {"step.started": 1, "step.completed": -1}.get(event.type, 0)
        assert running <= 2


def test_progress_of_parallel_steps_leaves_no_gap_and_keeps_each_steps_order(world: RuntimeWorld) -> None:
    run_id = world.run(
        "Chatty", [agent_step(f"s{n}", "chatty") for n in range(4)], workflow={"settings": {"parallel_steps": 4}}
    )
    world.until_ended(run_id)
    events = world.events(run_id, page_size=500).events
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    for step in ("s0", "s1", "s2", "s3"):
        progress = [json.loads(event.data) for event in events if event.type == "step.progress" and event.step == step]
        assert progress == [{"message": "at", "number": number} for number in range(20)]


def test_a_failed_step_fails_the_run_and_names_step_and_cause(world: RuntimeWorld) -> None:
    run_id = world.run(
        "Fails",
        [agent_step("good", "writer"), agent_step("bad", "fail", "good"), agent_step("after", "echo", "bad")],
    )
    row = world.until_ended(run_id)
    assert (row.status, row.error_code) == ("failed", "node_failed")
    assert row.error_message == "Step 'bad' failed: ValueError: no luck"
    assert world.board(run_id) == {"good": "completed", "bad": "failed", "after": "blocked"}
    error = world.steps(run_id)["bad"].error
    assert (error.code, error.message) == ("node_failed", "ValueError: no luck")
    assert row.outputs_count == 2, "what completed steps left is promoted"
    assert "Traceback" not in str(world.events(run_id))


def test_a_failed_step_stops_those_that_still_run(world: RuntimeWorld) -> None:
    run_id = world.run(
        "Stops", [agent_step("slow", "sleeper"), agent_step("bad", "fail"), agent_step("last", "echo", "slow")]
    )
    row = world.until_ended(run_id)
    assert (row.status, row.error_code) == ("failed", "node_failed")
    assert world.board(run_id) == {"slow": "cancelled", "bad": "failed", "last": "cancelled"}


def test_a_workflow_whose_steps_ask_for_a_network_that_none_has_is_not_ready(world: RuntimeWorld) -> None:
    world.apply(json.dumps(ONLINE))
    with pytest.raises(RefusedError) as refused:
        world.run("Online", [agent_step("main", environment="online")])
    assert refused.value.reason == "workflow_not_ready"
    (reason,) = refused.value.reasons
    assert reason.startswith("Environment 'online' asks for the network (network: full), which this deployment allows")


def test_a_step_fails_where_the_worker_allows_no_network_that_the_backend_does(
    services: Services, clock: TestClock, tmp_path: Path
) -> None:
    world = RuntimeWorld(replace(services, network="full"), clock, tmp_path)
    world.local_runtime.start()
    try:
        world.apply(json.dumps(ONLINE))
        row = world.until_ended(world.run("Online", [agent_step("main", environment="online")]))
    finally:
        world.local_runtime.stop()
    assert row.error_code == "node_failed"
    assert "which this deployment allows no step" in row.error_message


def test_an_optional_step_that_fails_leaves_a_warning(world: RuntimeWorld) -> None:
    run_id = world.run(
        "Optional",
        [
            agent_step("extra", "fail", optional=True),
            agent_step("behind", "echo", "extra", optional=True),
            agent_step("far", "echo", "behind", optional=True),
            agent_step("main"),
        ],
    )
    row = world.until_ended(run_id)
    assert row.status == "completed"
    assert json.loads(row.warnings) == [
        "The optional step 'extra' failed.",
        "The optional step 'behind' was skipped. It needs step 'extra', which is failed.",
        "The optional step 'far' was skipped. It needs step 'behind', which is skipped.",
    ]
    assert world.board(run_id) == {"extra": "failed", "behind": "skipped", "far": "skipped", "main": "completed"}
    assert (row.steps_completed, row.steps_failed, row.steps_skipped) == (1, 1, 2)
    reasons = {
        event.step: json.loads(event.data) for event in world.events(run_id).events if event.type == "step.skipped"
    }
    assert reasons == {
        "behind": {"reason": "It needs step 'extra', which is failed."},
        "far": {"reason": "It needs step 'behind', which is skipped."},
    }
    assert world.get(run_id).summary.completed_with_warnings


def test_a_required_step_behind_an_optional_one_that_failed_blocks_the_run(world: RuntimeWorld) -> None:
    run_id = world.run("Blocked", [agent_step("extra", "fail", optional=True), agent_step("main", "echo", "extra")])
    row = world.until_ended(run_id)
    assert (row.status, row.error_code) == ("failed", "invariant_blocked")
    assert row.error_message == "Step 'main' was blocked: It needs step 'extra', which is failed."
    assert world.board(run_id) == {"extra": "failed", "main": "blocked"}


def test_a_result_that_does_not_fit_its_schema_leaves_the_run_completed(world: RuntimeWorld) -> None:
    run_id = world.run(
        "Mismatch",
        [agent_step("write", "writer")],
        workflow={"result": {"step": "write", "schema": {"required": ["total"]}, "schema_version": "2"}},
    )
    row = world.until_ended(run_id)
    assert (row.status, row.result, row.result_error_code) == ("completed", None, "result_schema_mismatch")
    assert "total" in row.result_error_message
    assert row.result_size_bytes == len(b'{"words":3,"summary_markdown":"# Three"}')


def test_a_launch_under_a_licence_on_hold_fails_the_run(idle_world: RuntimeWorld) -> None:
    run_id = idle_world.started("Plain")
    idle_world.hold_licence()
    idle_world.local_runtime.start()
    row = idle_world.until_ended(run_id)
    assert (row.status, row.error_code) == ("failed", "license_unavailable")


def test_handing_a_segment_over_twice_is_harmless(world: RuntimeWorld) -> None:
    run_id = world.run("Again", [agent_step("slow", "waiter")])
    world.until_event(run_id, "step.progress")
    segment_id = world.events(run_id).segment_id
    engine = world.engine
    engine.submit(segment_id, 1)
    assert world.until_ended(run_id).status == "completed"
    engine.submit(segment_id, 1)
    world.until_ended(world.run("Next", [agent_step("main")]))
    assert world.event_types(run_id).count("step.started") == 1


def test_an_event_never_changes_once_read(world: RuntimeWorld) -> None:
    run_id = world.run(
        "Seen", [agent_step(f"s{n}", "chatty") for n in range(3)], workflow={"settings": {"parallel_steps": 3}}
    )
    seen: dict[int, bytes] = {}
    while True:
        ended = world.status(run_id) == "completed"
        for event in world.events(run_id, page_size=500).events:
            text = event.SerializeToString(deterministic=True)
            assert seen.setdefault(event.seq, text) == text
        assert sorted(seen) == list(range(1, len(seen) + 1))
        if ended:
            break


def test_many_runs_at_once_complete_without_a_gap_in_their_events(world: RuntimeWorld) -> None:
    key = world.new_key(max_concurrent_runs=40)
    steps = [agent_step("a", "chatty"), agent_step("b"), agent_step("c", "writer", "a", "b")]
    first = world.run("Many", steps, key=key)
    runs = [first, *(world.started("Many", key=key) for _ in range(29))]
    for run_id in runs:
        assert world.until_ended(run_id).status == "completed"
    gaps = world.count("segments", "last_seq <> (SELECT count(*) FROM events WHERE segment_id = segments.segment_id)")
    assert gaps == 0
    assert world.count("outputs") == 60


def test_nothing_of_a_finished_run_stays_on_the_working_disk(world: RuntimeWorld) -> None:
    world.until_ended(world.run("Tidy", [agent_step("write", "writer")]))
    world.local_runtime.stop()
    assert list(world.work.iterdir()) == []


def test_a_started_run_continues_after_an_approval_under_a_hold(world: RuntimeWorld) -> None:
    run_id = world.run("Begun", [gate("review"), agent_step("main", "echo", "review")])
    world.until_status(run_id, "waiting_for_approval")
    world.hold_licence()
    world.decide(world.approvals(run_id)["review"], True)
    row = world.until_ended(run_id)
    assert (row.status, row.error_code) == ("completed", None)
    assert world.board(run_id)["main"] == "completed"
