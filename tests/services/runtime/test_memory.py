"""The memory of steps that run at once. (docs/settings.md, Memory for steps)"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backend.services.dependencies import Services
from tests.services.conftest import TestClock
from tests.services.runtime.conftest import RuntimeWorld, agent_step

PARALLEL = {"settings": {"parallel_steps": 10}}


@pytest.fixture
def narrow(services: Services, clock: TestClock, tmp_path: Path) -> Iterator[RuntimeWorld]:
    """Room for two steps of the environment `standard`, or for one of the environment `large`."""
    world = RuntimeWorld(services, clock, tmp_path)
    world.apply("{kind: Environment, name: large, memory_mb: 3008}")
    world.local_runtime = world.new_runtime(tmp_path / "data", memory_mb=4_200)
    world.local_runtime.start()
    yield world
    world.local_runtime.stop()


def concurrent_memory(world: RuntimeWorld, run_id: str) -> int:
    """The most memory that running steps had together, in the order of the run's events."""
    memory = {step.step: 3_008 if step.step.startswith("large") else 2_048 for step in world.steps(run_id).values()}
    most = now = 0
    for event in world.events(run_id, page_size=500).events:
        now += {"step.started": 1, "step.completed": -1}.get(event.type, 0) * memory.get(event.step, 0)
        most = max(most, now)
    return most


def large(step: str, agent: str = "waiter", **fields: Any) -> dict[str, Any]:
    return agent_step(step, agent, **fields) | {"environment": "large"}


def test_concurrent_steps_never_exceed_the_memory_and_all_run(narrow: RuntimeWorld) -> None:
    steps = [agent_step("a", "waiter"), agent_step("b", "waiter"), large("large"), agent_step("c", "waiter")]
    run_id = narrow.run("Crowded", [*steps, agent_step("d", "waiter"), large("large-too")], workflow=PARALLEL)
    assert narrow.until_ended(run_id).status == "completed"
    assert concurrent_memory(narrow, run_id) == 2 * 2_048
    started = [event.step for event in narrow.events(run_id, page_size=500).events if event.type == "step.started"]
    assert started[2] == "large", "what came after it did not overtake it"


def test_a_step_that_needs_more_memory_than_allowed_fails_and_delays_no_other(narrow: RuntimeWorld) -> None:
    narrow.local_runtime.stop()
    narrow.local_runtime = narrow.new_runtime(narrow.folder / "data", memory_mb=2_048)
    narrow.local_runtime.start()
    steps = [large("large", optional=True, retry={"attempts": 3}), agent_step("small", "echo")]
    run_id = narrow.run("Too large", steps)
    assert narrow.until_ended(run_id).status == "completed"
    assert narrow.board(run_id) == {"large": "failed", "small": "completed"}
    step = narrow.steps(run_id)["large"]
    assert step.attempt == 1, "another try would find no more"
    assert step.error.message == (
        "its environment asks for 3008 MB of memory, and steps may use 2048 here (runtime.memory_mb)"
    )
