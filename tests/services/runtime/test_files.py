import json
from pathlib import Path

from backend.services.outputs.sql import outputs_of
from tests.services.runtime.conftest import RuntimeWorld, agent_step, gate

FILES = {"write/notes/a.txt": "one two", "write/table.csv": "a,b"}
NOTES = """
def run(context):
    return (context.files / "write" / "notes" / "a.txt").read_text()
"""


def test_a_step_finds_the_files_of_the_steps_that_it_needs(world: RuntimeWorld) -> None:
    run_id = world.run(
        "Passed on",
        [agent_step("write", "writer"), agent_step("plain"), agent_step("read", "reader", "write", "plain")],
        workflow={"result": {"step": "read"}},
        input_text="one two",
    )
    result = json.loads(world.until_ended(run_id).result)
    assert result == {"steps": ["plain", "write"], "files": FILES}


def test_a_step_finds_no_files_of_other_steps(world: RuntimeWorld) -> None:
    run_id = world.run(
        "Apart",
        [
            agent_step("write", "writer"),
            agent_step("between", "echo", "write"),
            agent_step("read", "reader", "between"),
        ],
        workflow={"result": {"step": "read"}},
    )
    assert json.loads(world.until_ended(run_id).result) == {"steps": ["between"], "files": {}}


def test_after_an_approval_files_come_back_from_the_objects(world: RuntimeWorld) -> None:
    readers = [agent_step(f"read{number}", "reader", "write", "review") for number in range(3)]
    run_id = world.run(
        "Approved",
        [agent_step("write", "writer"), gate("review", "write"), *readers],
        workflow={"result": {"step": "read2"}},
        input_text="one two",
    )
    world.until_status(run_id, "waiting_for_approval")
    assert not (world.work / run_id / "files").exists(), "a run that waits holds no files on disk"
    world.decide(world.approvals(run_id)["review"], True)
    result = json.loads(world.until_ended(run_id).result)
    assert result == {"steps": ["review", "write"], "files": FILES}


def test_files_of_an_attempt_that_failed_are_not_passed_on(world: RuntimeWorld) -> None:
    retry = {"attempts": 3, "backoff_seconds": 0}
    run_id = world.run(
        "Last attempt",
        [agent_step("luck", "third", retry=retry), agent_step("read", "reader", "luck")],
        workflow={"result": {"step": "read"}},
    )
    assert json.loads(world.until_ended(run_id).result)["files"] == {"luck/3.txt": "left"}


def test_a_step_on_another_worker_finds_the_files_of_the_steps_that_it_needs(
    world: RuntimeWorld, tmp_path: Path
) -> None:
    run_id = _parked(world)
    _move(world, tmp_path / "another")
    world.decide(world.approvals(run_id)["review"], True)
    assert json.loads(world.until_ended(run_id).result) == "one two"


def test_a_step_whose_files_are_no_longer_stored_fails_and_says_so(world: RuntimeWorld, tmp_path: Path) -> None:
    run_id = _parked(world)
    for output in world.services.database.read(lambda tx: outputs_of(tx, run_id)):
        world.objects.delete(output.object_key)
    _move(world, tmp_path / "another")
    world.decide(world.approvals(run_id)["review"], True)
    row = world.until_ended(run_id)
    assert (row.status, row.error_code) == ("failed", "node_failed")
    why = "the files of the steps that it needs could not be read: one is no longer stored"
    assert row.error_message == f"Step 'read' failed: {why}"


def _parked(world: RuntimeWorld) -> str:
    """A run that waits between a step with files and one that reads them."""
    world.apply(json.dumps({"kind": "Agent", "name": "notes", "type": "python", "code": NOTES}))
    run_id = world.run(
        "Reviewed",
        [agent_step("write", "writer"), gate("review", "write"), agent_step("read", "notes", "write", "review")],
        workflow={"result": {"step": "read"}},
        input_text="one two",
    )
    world.until_status(run_id, "waiting_for_approval")
    return run_id


def _move(world: RuntimeWorld, data: Path) -> None:
    """Goes on with a worker that has another disk, and without a sandbox, where nothing else guards its folders."""
    world.local_runtime.stop()
    world.local_runtime = world.new_runtime(data, sandbox="none")
    world.local_runtime.start()
