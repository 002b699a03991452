"""ListOutputs and GetPiiRedaction. (contract 18, 21.19)"""

import hashlib
from typing import Any

import pytest

from redaction.counts import Counts
from tests.services.calls import RefusedError
from tests.services.runs.world import World
from workflow_api.v1 import outputs_pb2, runs_pb2

ROUTES: dict[str, Any] = {
    "ListOutputs": outputs_pb2.ListOutputsRequest,
    "GetOutputsZip": outputs_pb2.GetOutputsZipRequest,
    "GetOutputContent": lambda run_id: outputs_pb2.GetOutputContentRequest(run_id=run_id, output_id="out_none"),
}


def listed(world: World, run_id: str) -> outputs_pb2.ListOutputsResponse:
    answer: outputs_pb2.ListOutputsResponse = world.outputs(
        "ListOutputs", outputs_pb2.ListOutputsRequest(run_id=run_id), world.key
    )
    return answer


def refusal(world: World, method: str, run_id: str, key: str | None = "") -> RefusedError:
    def call() -> None:
        request = ROUTES[method](run_id=run_id)
        if method == "ListOutputs":
            world.outputs(method, request, world.key if key == "" else key)
        else:
            world.outputs.stream(method, request, world.key if key == "" else key).rest()

    with pytest.raises(RefusedError) as caught:
        call()
    return caught.value


def manifest(world: World, run_id: str) -> outputs_pb2.PiiRedaction:
    answer: outputs_pb2.PiiRedaction = world.outputs(
        "GetPiiRedaction", outputs_pb2.GetPiiRedactionRequest(run_id=run_id), world.key
    )
    return answer


def test_outputs_are_listed_by_path_with_all_that_is_known(world: World) -> None:
    run_id = world.started()
    world.begin(run_id)
    world.output(run_id, "first/sub/é.txt", b"abc")
    world.output(run_id, "result.json", b"{}", step=None)
    world.output(run_id, "first/a.txt", b"")
    world.clock.advance(seconds=1)
    world.close(run_id)
    answer = listed(world, run_id)
    assert [item.path for item in answer.items] == ["first/a.txt", "first/sub/é.txt", "result.json"]
    assert (answer.total_bytes, answer.run_id) == (5, run_id)
    item = answer.items[1]
    assert (item.name, item.step, item.media_type, item.size_bytes) == ("é.txt", "first", "text/plain", 3)
    assert item.sha256 == hashlib.sha256(b"abc").hexdigest()
    assert item.created_at.ToMilliseconds() == world.clock.now
    assert not answer.items[2].HasField("step")


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_failed_and_cancelled_runs_keep_what_completed_steps_left(world: World, status: str) -> None:
    run_id = world.started()
    world.begin(run_id)
    world.output(run_id, "first/a.txt", b"x")
    world.close(run_id, status)
    assert [item.path for item in listed(world, run_id).items] == ["first/a.txt"]


@pytest.mark.parametrize("method", ROUTES)
def test_a_run_of_another_key_is_not_found(world: World, method: str) -> None:
    run_id = world.finished()
    foreign, unknown = refusal(world, method, run_id, world.new_key()), refusal(world, method, "run_none")
    assert (foreign.reason, foreign.message) == (unknown.reason, unknown.message)
    assert foreign.reason == "run_not_found"


@pytest.mark.parametrize("method", ROUTES)
def test_outputs_wait_for_the_end_of_the_run_with_its_status(world: World, method: str) -> None:
    run_id = world.started("Gated")
    refused = refusal(world, method, run_id)
    assert (refused.reason, refused.metadata) == ("run_not_terminal", {"status": "queued"})
    world.park(run_id, world.begin(run_id), "review")
    assert refusal(world, method, run_id).metadata == {"status": "waiting_for_approval"}


@pytest.mark.parametrize("method", ROUTES)
def test_outputs_wait_for_the_final_sweep(world: World, method: str) -> None:
    refused = refusal(world, method, world.finished("Swept"))
    assert refused.reason == "redaction_pending"
    assert refused.metadata == {"status": "completed"}
    assert refused.retry_after == 2


@pytest.mark.parametrize("method", ROUTES)
def test_an_unfinished_run_is_not_terminal_before_its_sweep_is_pending(world: World, method: str) -> None:
    assert refusal(world, method, world.started("Swept")).reason == "run_not_terminal"


def test_an_erasure_removes_outputs(world: World) -> None:
    run_id = world.started()
    world.begin(run_id)
    world.output(run_id, "first/a.txt", b"x")
    world.close(run_id)
    world.erase(run_id)
    answer = listed(world, run_id)
    assert (list(answer.items), answer.total_bytes) == ([], 0)
    assert refusal(world, "GetOutputContent", run_id).reason == "output_not_found"


def test_the_manifest_of_an_unfinished_run_has_its_stages_pending(world: World) -> None:
    run_id = world.started("Swept", pii_policy_override={"mode": "redact"})
    answer = manifest(world, run_id)
    assert (answer.run_id, answer.mode, answer.HasField("model")) == (run_id, "redact", False)
    assert [(stage.stage, stage.status) for stage in answer.stages] == [("steps", "pending"), ("outputs", "pending")]
    assert dict(answer.counts) == {name: count for name, count in Counts().as_dict().items() if name != "categories"}
    assert dict(answer.categories) == {}
    assert world.get(run_id).HasField("pii_redaction")


def test_a_policy_that_is_off_has_no_manifest(world: World) -> None:
    with pytest.raises(RefusedError) as caught:
        manifest(world, world.started())
    assert caught.value.reason == "pii_redaction_not_applied"


def test_the_manifest_of_another_keys_run_is_not_found(world: World) -> None:
    run_id = world.started("Swept")
    with pytest.raises(RefusedError) as caught:
        world.outputs("GetPiiRedaction", outputs_pb2.GetPiiRedactionRequest(run_id=run_id), world.new_key())
    assert caught.value.reason == "run_not_found"


def test_the_counts_of_a_run_name_its_outputs_once_they_are_promoted(world: World) -> None:
    run_id = world.started()
    world.begin(run_id)
    world.output(run_id, "first/a.txt", b"x")
    world.close(run_id)
    assert world.get(run_id).summary.counts == runs_pb2.RunCounts(steps_total=2, outputs=1)
