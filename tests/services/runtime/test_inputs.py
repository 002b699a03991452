import json

import pytest

from tests.services.runtime.conftest import RuntimeWorld, agent_step, gate, manifest
from tests.support.poll import until
from tests.unit.backend.runtime.bucket import Bucket, serve_bucket
from workflow_api.v1 import workflows_pb2

__all__ = ["serve_bucket"]

READER = """
def run(context):
    folder = context.inputs / "documents"
    return {path.relative_to(folder).as_posix(): path.read_text() for path in sorted(folder.rglob("*.txt"))}
"""
PARAMETERS = [{"name": "documents", "type": "s3_prefix", "connector": "inbox", "required": True, "max_objects": 4}]


@pytest.fixture
def workflow(world: RuntimeWorld, bucket: Bucket) -> str:
    """A workflow that reads its inputs before and behind a gate."""
    documents = [
        {"kind": "Connector", "name": "inbox", "type": "s3", "bucket": "docs", "endpoint_url": bucket.url},
        {"kind": "Agent", "name": "reader", "type": "python", "code": READER},
    ]
    world.apply("\n---\n".join(map(json.dumps, documents)))
    assert world.workflow_calls("TestConnector", workflows_pb2.TestConnectorRequest(name="inbox")).passed
    steps = [agent_step("read", "reader"), gate("look", "read"), agent_step("again", "reader", "look")]
    fields = {"parameters": PARAMETERS, "result": {"step": "again"}}
    world.workflows |= world.apply(manifest("Reads", steps, **fields))
    return "Reads"


def test_inputs_are_available_in_the_first_step_and_in_later_segments(
    world: RuntimeWorld, bucket: Bucket, workflow: str
) -> None:
    bucket.objects = {"in/a.txt": b"A", "in/b/c.txt": b"C"}
    run_id = world.started(workflow, parameters={"documents": "s3://docs/in/"})
    world.until_status(run_id, "waiting_for_approval")
    types = world.event_types(run_id)
    assert types.index("inputs.materialised") < types.index("step.started")
    world.decide(world.approvals(run_id)["look"], True)
    row = world.until_ended(run_id)
    assert json.loads(row.result) == {"a.txt": "A", "b/c.txt": "C"}
    (entry,) = json.loads(row.inputs_manifest)
    assert (entry["objects"], entry["bytes"], len(entry["items"])) == (2, 2, 2)
    until(lambda: not list(world.work.iterdir()), "the end of the run's folder")


@pytest.mark.parametrize(
    ("objects", "why"), [({}, "there are no objects"), ({f"in/{n}": b"" for n in range(5)}, "more than 4 objects")]
)
def test_inputs_that_cannot_be_copied_in_fail_the_run_before_any_step(
    world: RuntimeWorld, bucket: Bucket, workflow: str, objects: dict[str, bytes], why: str
) -> None:
    bucket.objects = objects
    run_id = world.started(workflow, parameters={"documents": "s3://docs/in/"})
    row = world.until_ended(run_id)
    assert (row.status, row.error_code) == ("failed", "input_materialisation_failed")
    assert why in row.error_message
    assert "step.started" not in world.event_types(run_id)


def test_a_run_is_cancelled_while_its_inputs_are_copied(world: RuntimeWorld, bucket: Bucket, workflow: str) -> None:
    bucket.objects = {"in/a.txt": b"A"}
    bucket.held_up.clear()
    run_id = world.started(workflow, parameters={"documents": "s3://docs/in/"})
    world.until_event(run_id, "run.started")
    world.cancel(run_id)
    assert world.until_ended(run_id).status == "cancelled"
    bucket.held_up.set()
