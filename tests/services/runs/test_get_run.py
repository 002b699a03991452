"""GetRun and the routes below a run. (contract 14.1)"""

from typing import Any

import pytest

from backend.services.runs.lifecycle import RunResult
from tests.services.calls import RefusedError
from tests.services.runs.world import World
from workflow_api.v1 import runs_pb2

BELOW: dict[str, Any] = {
    "GetRun": runs_pb2.GetRunRequest,
    "ListRunSteps": runs_pb2.ListRunStepsRequest,
    "ListRunEvents": runs_pb2.ListRunEventsRequest,
    "ListRunApprovals": runs_pb2.ListRunApprovalsRequest,
    "CancelRun": runs_pb2.CancelRunRequest,
    "EraseRunData": runs_pb2.EraseRunDataRequest,
}


@pytest.mark.parametrize("method", BELOW)
def test_a_run_of_another_key_is_not_found(world: World, method: str) -> None:
    run_id = world.started()
    refusals = []
    for asked, key in ((run_id, world.new_key()), ("run_none", world.key)):
        with pytest.raises(RefusedError) as caught:
            world.runs(method, BELOW[method](run_id=asked), key)
        refusals.append((caught.value.reason, caught.value.message))
    assert refusals[0] == refusals[1]
    assert refusals[0] == ("run_not_found", "There is no such run within reach.")


@pytest.mark.parametrize("method", BELOW)
def test_people_are_told_which_run_does_not_exist(world: World, method: str) -> None:
    with pytest.raises(RefusedError) as caught:
        world.runs(method, BELOW[method](run_id="run_none"))
    assert (caught.value.reason, caught.value.message) == ("run_not_found", "There is no run run_none.")


def test_an_internal_caller_sees_every_run(world: World) -> None:
    run_id = world.started()
    seen = world.get(run_id, None)
    seen.ClearField("started_by")
    assert seen == world.get(run_id)


def test_own_runs_stay_readable_when_the_keys_workflows_change(world: World) -> None:
    run_id = world.started()
    world.switch("Plain", active=False)
    assert world.get(run_id).summary.run_id == run_id


def test_a_finished_run_shows_its_result_and_duration(world: World) -> None:
    run_id = world.started()
    world.begin(run_id)
    world.clock.advance(seconds=2)
    result = RunResult(
        value='{"words":3}', output_id="out_1", size_bytes=11, sha256="ab", summary_markdown="# Three words"
    )
    world.close(run_id, result=result)
    run = world.get(run_id)
    assert run.summary.status == runs_pb2.RUN_STATUS_COMPLETED
    assert run.summary.duration.ToMilliseconds() == 2000
    assert (run.result, run.summary_markdown) == ('{"words":3}', "# Three words")
    assert (run.result_json.size_bytes, run.result_json.sha256, run.result_json.output_id) == (11, "ab", "out_1")
    assert not run.HasField("error")


def test_a_result_that_does_not_fit_its_schema_is_only_a_file(world: World) -> None:
    run_id = world.started()
    world.begin(run_id)
    result = RunResult(
        output_id="out_1",
        size_bytes=11,
        sha256="ab",
        error_code="result_schema_mismatch",
        error_message="words is missing",
    )
    world.close(run_id, result=result)
    run = world.get(run_id)
    assert not run.HasField("result")
    assert run.result_error == runs_pb2.RunError(code="result_schema_mismatch", message="words is missing")
    assert run.HasField("result_json")


def test_a_failed_run_says_why_and_has_no_warnings_flag(world: World) -> None:
    run_id = world.started()
    world.begin(run_id)
    world.close(run_id, "failed", error_code="node_failed", error_message="boom", warnings=["late"])
    run = world.get(run_id)
    assert run.error == runs_pb2.RunError(code="node_failed", message="boom")
    assert list(run.summary.warnings) == ["late"]
    assert not run.summary.completed_with_warnings


def test_a_completed_run_with_warnings_says_so(world: World) -> None:
    run_id = world.started()
    world.begin(run_id)
    world.close(run_id, warnings=["The knowledge graph was still building."])
    run = world.get(run_id)
    assert run.summary.completed_with_warnings
    assert run.summary.status == runs_pb2.RUN_STATUS_COMPLETED
    assert not run.HasField("error")


def test_nothing_of_the_result_leaves_before_the_final_sweep(world: World) -> None:
    run_id = world.started("Swept")
    world.begin(run_id)
    result = RunResult(
        value='"Jo"',
        output_id="out_1",
        size_bytes=4,
        sha256="ab",
        summary_markdown="Jo",
        error_code="result_schema_mismatch",
        error_message="'Jo' is too short",
    )
    world.close(run_id, result=result)
    run = world.get(run_id)
    for hidden in ("result", "result_json", "summary_markdown"):
        assert not run.HasField(hidden)
    assert run.result_error == runs_pb2.RunError(code="result_schema_mismatch")


def test_the_detail_lists_the_steps_in_the_order_of_the_definition(world: World) -> None:
    steps = world.steps(world.started())
    assert list(steps) == ["first", "second"]
    assert list(steps["second"].needs) == ["first"]
    assert steps["second"].optional
    assert {step.kind for step in steps.values()} == {runs_pb2.STEP_KIND_AGENT}
    assert {step.status for step in steps.values()} == {runs_pb2.STEP_STATUS_PENDING}
    assert all(step.agent_id.startswith("agt_") for step in steps.values())
    gated = world.steps(world.started("Gated"))
    assert gated["review"].kind == runs_pb2.STEP_KIND_APPROVAL
    assert not gated["review"].HasField("agent_id")
