"""One key's long steps leave a step slot, with its share of the memory, to other keys."""

import json

import pytest

from tests.services.runtime.conftest import RuntimeWorld, agent_step

LONG = "import time\ndef run(context):\n    time.sleep(900 if context.input_text else 0)\n    return 'done'"


@pytest.mark.parametrize(
    ("slots", "memory_mb", "alone"),
    [(4, 1_000_000, 3), (8, 8_000, 3)],
    ids=["where they fill the slots", "where they fill the memory"],
)
def test_another_keys_run_completes_beside_more_long_steps_than_there_are_slots(
    idle_world: RuntimeWorld, slots: int, memory_mb: int, alone: int
) -> None:
    world = idle_world
    world.apply(json.dumps({"kind": "Agent", "name": "sleeper", "type": "python", "code": LONG}))
    world.apply(json.dumps({"kind": "Environment", "name": "small", "memory_mb": 2000}))
    world.local_runtime = world.new_runtime(world.folder / "shared", step_slots=slots, memory_mb=memory_mb)
    world.local_runtime.start()
    busy = world.key = world.new_key(name="busy", max_concurrent_runs=10)
    try:
        steps = [{**agent_step("main", "sleeper"), "environment": "small"}]
        long = [world.run("Sleep", steps, workflow={"result": {"step": "main"}}, input_text="long")]
        long += [world.started("Sleep", input_text="long") for _ in range(4)]
        for run_id in long[:alone]:
            world.until_event(run_id, "step.started")
        world.key = world.new_key(name="other")
        assert world.until_ended(world.started("Sleep")).status == "completed"
        world.key = busy
        begun = [run_id for run_id in long if "step.started" in world.event_types(run_id)]
        assert len(begun) == alone
        for run_id in long:
            world.cancel(run_id)
        for run_id in long:
            assert world.until_ended(run_id).status == "cancelled"
    finally:
        world.local_runtime.stop()
