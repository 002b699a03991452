"""Where the bytes of `result.json` are: in the run's row, which shows them, or in the object store."""

import hashlib

import pytest

from backend.outputs.sql import outputs_of
from backend.storage.tables.outputs import OutputRow
from tests.services.runtime.conftest import RuntimeWorld, agent_step
from workflow_api.v1 import outputs_pb2


def _ended(world: RuntimeWorld, agent: str, **fields: object) -> OutputRow:
    workflow = {"result": {"step": "main"}}
    run_id = world.run("Result", [agent_step("main", agent)], workflow=workflow, **fields)
    assert world.until_ended(run_id).status == "completed"
    [output] = world.services.database.read(lambda tx: outputs_of(tx, run_id))
    return output


def _objects(world: RuntimeWorld) -> int:
    return sum(path.is_file() for path in (world.folder / "objects").rglob("*"))


def _read(world: RuntimeWorld, output: OutputRow, offset: int, length: int) -> bytes:
    return b"".join(world.objects.open_range(output.object_key, offset, length))


def test_a_result_that_its_run_shows_is_stored_once_and_read_as_an_object(world: RuntimeWorld) -> None:
    output = _ended(world, "echo")
    text = b'{"step":null,"needs":{}}'
    # A process of an earlier version, which may share the database, reads objects alone.
    assert _objects(world) == world.services.database.remote
    assert (output.path, output.step, output.size_bytes) == ("result.json", None, len(text))
    assert output.sha256 == hashlib.sha256(text).hexdigest()
    assert [_read(world, output, 0, len(text)), _read(world, output, 2, 4), _read(world, output, 5, 0)] == [
        text,
        b"step",
        b"",
    ]
    request = outputs_pb2.GetOutputContentRequest(run_id=output.run_id, output_id=output.output_id)
    assert world.outputs.stream("GetOutputContent", request, world.key).rest()[-1].data == text
    with pytest.raises(EOFError):
        _read(world, output, 0, len(text) + 1)


def test_a_result_that_its_run_does_not_show_is_an_object(world: RuntimeWorld) -> None:
    output = _ended(world, "large")
    assert _objects(world) == 1
    assert len(_read(world, output, 0, output.size_bytes)) == output.size_bytes > 262_144


def test_a_result_that_a_policy_covers_is_an_object_until_it_is_swept(world: RuntimeWorld) -> None:
    _ended(world, "echo", pii_policy_override={"mode": "redact"})
    assert _objects(world) >= 1


def test_an_erased_result_is_nowhere(world: RuntimeWorld) -> None:
    output = _ended(world, "echo")
    # As a reader would that had its row before the erasure.
    world.objects.delete(output.object_key)
    world.erase(output.run_id)
    world.removals.round()
    with pytest.raises(KeyError):
        _read(world, output, 0, output.size_bytes)
    assert _objects(world) == 0
