"""Runs that go on after an approval where their inputs do not lie on the worker's disk."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.services.runtime.conftest import RuntimeWorld, agent_step, gate, manifest
from tests.services.runtime.test_inputs import PARAMETERS, READER
from tests.unit.backend.runtime.bucket import Bucket, serve_bucket
from workflow_api.v1 import workflows_pb2

__all__ = ["serve_bucket"]

HELD_UP = """
import time
from pathlib import Path

def run(context):
    context.progress("began")
    while not Path(context.input_text).exists():
        time.sleep(0.01)
"""
POLICY = {"mode": "redact", "categories": ["EMAIL_ADDRESS"], "stages": ["inputs"]}


class Machines:
    """Workers of one database, each with a disk of its own and without a sandbox; one works at a time."""

    def __init__(self, world: RuntimeWorld, folder: Path) -> None:
        self.world = world
        self.folder = folder
        self.names = iter("bcdefg")
        self.move()

    def move(self, before: Callable[[Path], object] = lambda _: None) -> None:
        """Goes on with another worker; `before` is called with its work folder."""
        self.world.local_runtime.stop()
        data = self.folder / next(self.names)
        before(data / "work")
        self.world.local_runtime = self.world.new_runtime(data, sandbox="none")
        self.world.work = data / "work"
        self.world.local_runtime.start()

    def parked(self, workflow: str = "Reads", **fields: Any) -> str:
        run_id = self.world.started(workflow, parameters={"documents": "s3://docs/in/"}, **fields)
        assert self.world.until_status(run_id, "waiting_for_approval", "failed").error_message is None
        return run_id

    def finished(self, run_id: str) -> Any:
        self.world.decide(self.world.approvals(run_id)["look"], True)
        return self.world.until_ended(run_id)

    def types(self, run_id: str) -> list[list[str]]:
        """The types of the events of each segment."""
        return [[event.type for event in events] for events in self.world.all_events(run_id)]


@pytest.fixture
def machines(idle_world: RuntimeWorld, bucket: Bucket, tmp_path: Path) -> Machines:
    world = idle_world
    bucket.objects = {"in/a.txt": b"A", "in/b/c.txt": b"C"}
    documents = [
        {"kind": "Connector", "name": "inbox", "type": "s3", "bucket": "docs", "endpoint_url": bucket.url},
        {"kind": "Agent", "name": "reader", "type": "python", "code": READER},
        {"kind": "Agent", "name": "held-up", "type": "python", "code": HELD_UP},
    ]
    world.apply("\n---\n".join(map(json.dumps, documents)))
    assert world.workflow_calls("TestConnector", workflows_pb2.TestConnectorRequest(name="inbox")).passed
    steps = [agent_step("read", "reader"), gate("look", "read"), agent_step("again", "reader", "look")]
    fields: dict[str, Any] = {"parameters": PARAMETERS, "result": {"step": "again"}}
    world.workflows |= world.apply(manifest("Reads", steps, **fields))
    world.workflows |= world.apply(manifest("Swept", steps, **fields, pii_policy=POLICY))
    held_up = [agent_step("wait", "held-up"), agent_step("read", "reader", "wait")]
    world.workflows |= world.apply(manifest("Held up", held_up, parameters=PARAMETERS))
    return Machines(world, tmp_path)


def test_a_run_that_goes_on_with_another_worker_finds_its_inputs(machines: Machines) -> None:
    run_id = machines.parked()
    recorded = machines.world.row(run_id).inputs_manifest
    machines.move()
    row = machines.finished(run_id)
    assert (row.status, json.loads(row.result)) == ("completed", {"a.txt": "A", "b/c.txt": "C"})
    assert row.inputs_manifest == recorded
    first, second = machines.types(run_id)
    assert "inputs.materialised" in first
    assert "inputs.materialised" not in second, "the run has its inputs once"


def test_a_run_whose_folder_was_lost_while_it_waited_finds_its_inputs(machines: Machines) -> None:
    run_id = machines.parked()
    shutil.rmtree(machines.world.work / run_id)
    assert json.loads(machines.finished(run_id).result) == {"a.txt": "A", "b/c.txt": "C"}


def test_inputs_that_lie_on_the_disk_are_not_copied_again(machines: Machines, bucket: Bucket) -> None:
    run_id = machines.parked()
    bucket.objects = {"in/a.txt": b"another"}
    assert json.loads(machines.finished(run_id).result) == {"a.txt": "A", "b/c.txt": "C"}


def test_inputs_whose_copy_was_interrupted_are_copied_as_a_whole(machines: Machines) -> None:
    run_id = machines.parked()
    place = machines.world.work / run_id / "inputs"

    def interrupt(work: Path) -> None:
        incoming = work / run_id / f".{place.name}" / "documents"
        incoming.mkdir(parents=True)
        (incoming / "a.txt").write_text("ha")
        (incoming / "left.txt").write_text("of another time")

    assert place.is_dir()
    machines.move(interrupt)
    assert json.loads(machines.finished(run_id).result) == {"a.txt": "A", "b/c.txt": "C"}


@pytest.mark.parametrize(
    ("objects", "why"),
    [
        ({"in/a.txt": b"B", "in/b/c.txt": b"C"}, "the object 'in/a.txt' was changed after the run began"),
        ({"in/a.txt": b"A"}, "the object 'in/b/c.txt' was removed after the run began"),
        ({}, "the object 'in/a.txt' was removed after the run began"),
        (
            {"in/a.txt": b"A", "in/b/c.txt": b"C", "in/0.txt": b""},
            "the object 'in/0.txt' was added after the run began",
        ),
    ],
)
def test_objects_that_changed_while_a_run_waited_fail_it_and_are_named(
    machines: Machines, bucket: Bucket, objects: dict[str, bytes], why: str
) -> None:
    run_id = machines.parked()
    bucket.objects = objects
    machines.move()
    row = machines.finished(run_id)
    assert (row.status, row.error_code) == ("failed", "input_materialisation_failed")
    assert row.error_message == f"Parameter 'documents': s3://docs/in/ could not be copied in: {why}"
    assert "step.started" not in machines.types(run_id)[1]


def test_another_worker_sweeps_the_inputs_and_counts_nothing_twice(machines: Machines, bucket: Bucket) -> None:
    bucket.objects = {"in/people.txt": b"Ask ann@example.com."}
    run_id = machines.parked("Swept")
    counted = machines.world.row(run_id).pii_redaction
    assert counted is not None
    assert '"EMAIL_ADDRESS":1' in counted.replace(" ", "")
    machines.move()
    row = machines.finished(run_id)
    assert json.loads(row.result) == {"people.txt": "Ask [EMAIL_ADDRESS]."}
    assert row.pii_redaction == counted
    first, second = machines.types(run_id)
    assert "redaction.completed" in first
    assert "redaction.completed" not in second


def test_a_step_does_not_begin_without_the_inputs_of_its_run(machines: Machines, tmp_path: Path) -> None:
    world, go = machines.world, tmp_path / "go"
    run_id = world.started("Held up", parameters={"documents": "s3://docs/in/"}, input_text=str(go))
    world.until_event(run_id, "step.progress")
    shutil.rmtree(world.work / run_id / "inputs")
    go.touch()
    row = world.until_ended(run_id)
    assert (row.status, row.error_code) == ("failed", "node_failed")
    assert row.error_message == "Step 'read' failed: the run's inputs are no longer on the worker's disk"
