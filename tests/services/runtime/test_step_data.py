"""What one attempt of a step may return and report, in whole runs."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backend.settings import StepDataLimits
from tests.services.runtime.conftest import RuntimeWorld, agent_step
from tests.support.poll import until

AGENTS = {
    "flooding": """
def run(context):
    for number in range(30):
        context.progress("at", number=number)
    if context.attempt == 1 and context.parameters.get("fails"):
        raise ValueError("no luck")
    return 1
""",
    "endless": """
import time
def run(context):
    for number in range(30):
        context.progress("at", number=number)
    context.progress("the last")
    time.sleep(3600)
""",
    "deep": """
def run(context):
    value = []
    for _ in range(2500):
        value = [value]
    return value
""",
    "deep-event": """
def run(context):
    value = []
    for _ in range(200):
        value = [value]
    context.progress("deep", value=value)
""",
}


@pytest.fixture(params=["bwrap", "landlock"])
def bounded(idle_world: RuntimeWorld, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[RuntimeWorld]:
    """A world whose steps may report ten events."""
    for name, code in AGENTS.items():
        idle_world.apply(json.dumps({"kind": "Agent", "name": name, "type": "python", "code": code}))
    runtime = idle_world.new_runtime(tmp_path / "data", sandbox=request.param, step_data=StepDataLimits(events=10))
    runtime.start()
    yield idle_world
    runtime.stop()


def warnings(world: RuntimeWorld, run_id: str) -> list[dict[str, Any]]:
    return [json.loads(event.data) for event in world.events(run_id).events if event.type == "warning"]


def test_an_attempt_past_its_events_has_one_warning_that_counts_the_dropped(bounded: RuntimeWorld) -> None:
    run_id = bounded.run("Floods", [agent_step("talk", "flooding")])
    row = bounded.until_ended(run_id)
    assert (row.status, json.loads(row.warnings)) == ("completed", [])
    message = "Progress events of this attempt were dropped: 20 after the first 10."
    assert warnings(bounded, run_id) == [{"message": message, "dropped": 20, "exact": True, "attempt": 1}]
    types = bounded.event_types(run_id)
    assert types.count("step.progress") == 10
    assert types.index("warning") < types.index("step.completed")


def test_each_attempt_has_limits_and_a_warning_of_its_own(bounded: RuntimeWorld) -> None:
    parameters = [{"name": "fails", "type": "boolean", "default": True}]
    retry = {"attempts": 2, "backoff_seconds": 0}
    run_id = bounded.run("Again", [agent_step("talk", "flooding", retry=retry)], workflow={"parameters": parameters})
    assert bounded.until_ended(run_id).status == "completed"
    assert [(each["attempt"], each["dropped"]) for each in warnings(bounded, run_id)] == [(1, 20), (2, 20)]
    assert bounded.event_types(run_id).count("step.progress") == 20


def test_a_cancelled_attempt_has_its_warning_too(bounded: RuntimeWorld) -> None:
    run_id = bounded.run("Endless", [agent_step("talk", "endless")])
    until(lambda: bounded.event_types(run_id).count("step.progress") == 10, "ten events")
    other = bounded.run("Beside", [agent_step("echo")])
    assert bounded.until_ended(other).status == "completed"
    bounded.cancel(run_id)
    assert bounded.until_ended(run_id).status == "cancelled"
    (warning,) = warnings(bounded, run_id)
    assert (warning["exact"], warning["dropped"]) == (False, 16)


@pytest.mark.parametrize(
    ("agent", "message"),
    [
        ("deep", "the return value is nested more than 100 levels deep"),
        ("deep-event", "ValueError: a progress event is nested more than 100 levels deep"),
    ],
)
def test_a_value_nested_too_deep_fails_the_step(bounded: RuntimeWorld, agent: str, message: str) -> None:
    run_id = bounded.run("Deep", [agent_step("dig", agent)])
    row = bounded.until_ended(run_id)
    assert (row.status, row.error_code, row.error_message) == ("failed", "node_failed", f"Step 'dig' failed: {message}")
    assert "step.progress" not in bounded.event_types(run_id)
