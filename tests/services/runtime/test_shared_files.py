"""Files of steps that later steps see and nobody else: `context.shared`, and steps with `outputs: false`."""

import json
from pathlib import Path
from typing import Any

import pytest

from backend.services.outputs.sql import outputs_of, shared_files_of
from tests.services.runtime.conftest import RuntimeWorld, agent_step, gate
from tests.support.poll import until

MAKER = """
def run(context):
    (context.outputs / "kept").mkdir()
    (context.outputs / "kept" / "out.txt").write_text("out " + context.input_text)
    (context.shared / "kept").mkdir()
    (context.shared / "kept" / "own.txt").write_text("own " + context.input_text)
"""
MADE = {"make/kept/out.txt": "out it", "make/kept/own.txt": "own it"}


def test_shared_files_are_seen_by_later_steps_and_promoted_by_none(world: RuntimeWorld) -> None:
    run_id = _made(world, [agent_step("make", "maker"), agent_step("read", "reader", "make")])
    row = world.until_ended(run_id)
    assert json.loads(row.result)["files"] == MADE
    assert _promoted(world, run_id) == ["make/kept/out.txt", "result.json"]
    _until_no_shared_file_is_left(world, run_id)


def test_a_step_without_outputs_promotes_nothing_and_hands_its_files_on(world: RuntimeWorld) -> None:
    run_id = _made(world, [agent_step("make", "maker", outputs=False), agent_step("read", "reader", "make")])
    row = world.until_ended(run_id)
    assert json.loads(row.result)["files"] == MADE
    assert _promoted(world, run_id) == ["result.json"]
    _until_no_shared_file_is_left(world, run_id)


def test_shared_files_that_no_step_needs_are_not_stored(world: RuntimeWorld) -> None:
    steps = [agent_step("make", "maker", outputs=False), gate("review"), agent_step("read", "reader", "review")]
    run_id = _made(world, steps)
    world.until_status(run_id, "waiting_for_approval")
    assert _shared(world, run_id) == []
    world.decide(world.approvals(run_id)["review"], True)
    assert world.until_ended(run_id).status == "completed"


@pytest.mark.parametrize("outputs", [True, False])
def test_a_step_on_another_worker_finds_shared_files_which_go_once_the_run_has_ended(
    world: RuntimeWorld, tmp_path: Path, outputs: bool
) -> None:
    steps = [
        agent_step("make", "maker", outputs=outputs),
        gate("review", "make"),
        agent_step("read", "reader", "make", "review"),
    ]
    run_id = _made(world, steps)
    world.until_status(run_id, "waiting_for_approval")
    assert len(_shared(world, run_id)) == (1 if outputs else 2)
    move(world, tmp_path / "another")
    world.decide(world.approvals(run_id)["review"], True)
    assert json.loads(world.until_ended(run_id).result)["files"] == MADE
    _until_no_shared_file_is_left(world, run_id)


def test_shared_files_of_a_cancelled_run_stay_to_be_resumed_until_it_is_erased(world: RuntimeWorld) -> None:
    steps = [agent_step("make", "maker"), gate("review", "make"), agent_step("read", "reader", "make", "review")]
    run_id = _made(world, steps)
    world.until_status(run_id, "waiting_for_approval")
    assert len(_shared(world, run_id)) == 1
    world.cancel(run_id)
    assert _promoted(world, run_id) == ["make/kept/out.txt"]
    assert len(_shared(world, run_id)) == 1
    world.erase(run_id)
    _until_no_shared_file_is_left(world, run_id)


@pytest.mark.parametrize(
    ("in_outputs", "in_shared", "name"),
    [("a.txt", "a.txt", "a.txt"), ("a", "a/b", "a"), ("a/b/c", "a/b", "a/b")],
    ids=["a file", "a file that is a folder of the shared files", "a file that is a folder of the outputs"],
)
def test_a_name_in_outputs_and_in_shared_fails_the_step_and_names_it(
    world: RuntimeWorld, in_outputs: str, in_shared: str, name: str
) -> None:
    code = f"""
def run(context):
    for path in (context.outputs / {in_outputs!r}, context.shared / {in_shared!r}):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
"""
    world.apply(json.dumps({"kind": "Agent", "name": "both", "type": "python", "code": code}))
    run_id = world.run("Both", [agent_step("make", "both")])
    row = world.until_ended(run_id)
    why = f"'{name}' is in context.outputs and in context.shared: a name may be in one of them"
    assert (row.error_code, row.error_message) == ("node_failed", f"Step 'make' failed: {why}")


def _made(world: RuntimeWorld, steps: list[dict[str, Any]]) -> str:
    world.apply(json.dumps({"kind": "Agent", "name": "maker", "type": "python", "code": MAKER}))
    return world.run("Made", steps, workflow={"result": {"step": "read"}}, input_text="it")


def _promoted(world: RuntimeWorld, run_id: str) -> list[str]:
    return [output.path for output in world.services.database.read(lambda tx: outputs_of(tx, run_id))]


def _shared(world: RuntimeWorld, run_id: str) -> list[str]:
    rows = world.services.database.read(lambda tx: shared_files_of(tx, run_id))
    assert world.objects.sizes(f"runs/{run_id}/shared/make/") == {row.object_key: row.size_bytes for row in rows}
    return [row.path for row in rows]


def _until_no_shared_file_is_left(world: RuntimeWorld, run_id: str) -> None:
    tables = ("shared_files", "pending_deletions", "pending_removals")
    until(lambda: not any(map(world.count, tables)), "the removal of shared files")
    assert not world.objects.sizes(f"runs/{run_id}/shared/make/")


def move(world: RuntimeWorld, data: Path) -> None:
    """Goes on with a worker that has another disk."""
    world.local_runtime.stop()
    world.local_runtime = world.new_runtime(data)
    world.local_runtime.start()
