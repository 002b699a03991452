import json

from tests.services.runtime.conftest import RuntimeWorld, agent_step, gate

FILES = {"write/notes/a.txt": "one two", "write/table.csv": "a,b"}


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
