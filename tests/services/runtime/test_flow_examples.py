"""The examples on the page about flows run as the page says."""

import json
import re
from pathlib import Path
from typing import Final

import pytest

from backend.services.runs.start.service import RunStarter
from backend.services.schedules.runner import ScheduleRunner
from tests.services.runtime.conftest import RuntimeWorld
from workflow_api.v1 import runs_pb2

PAGE: Final = Path("docs/flows.md").read_text(encoding="utf-8")
EXAMPLES: Final = {
    re.findall(r"^name: (.*)$", text, re.MULTILINE)[-1]: text
    for text in re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    if "status: active" in text
}


def started(world: RuntimeWorld, name: str, **fields: object) -> str:
    world.workflows |= world.apply(EXAMPLES[name])
    return world.started(name, **fields)


@pytest.mark.parametrize(("total", "paid"), [(250, True), (50, False), (5000, False)])
def test_conditions(world: RuntimeWorld, total: int, paid: bool) -> None:
    run = world.until_ended(started(world, "Pay when it is much", parameters={"total": total}))
    assert (run.status, json.loads(run.result)["paid"]) == ("completed", paid)


def test_last_steps(world: RuntimeWorld) -> None:
    run = world.until_ended(started(world, "Tidy"))
    assert run.status == "failed"
    values = {row.step: row.value for row in world.dump(f"steps WHERE run_id = '{run.run_id}'")}
    failure = {"step": "work", "code": "node_failed", "message": "Step 'work' failed: RuntimeError: the disk is full"}
    assert json.loads(values["alarm"]) == json.loads(values["clean"]) == failure


def test_fan_out(world: RuntimeWorld) -> None:
    run = world.until_ended(started(world, "Pages"))
    assert (run.status, json.loads(run.result)) == ("completed", {"words": 5, "failed": 1})


def test_a_workflow_as_a_step(world: RuntimeWorld) -> None:
    run = world.until_ended(started(world, "Orders"))
    assert (run.status, json.loads(run.result)) == ("completed", {"total": 250, "note": "as it stands"})


def test_an_approval_with_an_end(world: RuntimeWorld) -> None:
    run_id = started(world, "Close the month")
    world.until_status(run_id, "waiting_for_approval")
    (pending,) = world.runs("ListPendingApprovals", runs_pb2.ListPendingApprovalsRequest(run_id=run_id)).items
    assert (pending.summary, pending.HasField("deadline_at")) == ("Total: 12.5", True)
    form = {"amount": 12.5, "currency": "EUR"}
    world.decide(world.approvals(run_id)["review"], approve=True, form=json.dumps(form))
    run = world.until_ended(run_id)
    assert (run.status, json.loads(run.result)) == ("completed", form)


def test_a_schedule(world: RuntimeWorld) -> None:
    world.workflows |= world.apply(EXAMPLES["Nightly report"])
    runner = ScheduleRunner(world.services, RunStarter(world.services, world.local_runtime))
    runner.round()
    # A quarter of an hour is due within any quarter of an hour.
    for _ in range(16):
        world.clock.advance(seconds=60)
        runner.round()
    found = world.dump("runs")
    assert {(run.triggered_by, run.key_id) for run in found} == {("schedule", "")}
    assert {json.loads(world.until_ended(run.run_id).result) for run in found} >= {"a report about US"}
