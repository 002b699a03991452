"""Where the bytes of `result.json` are: in the run's row, which shows them, or in the object store."""

import asyncio
import hashlib
import io
import zipfile
from functools import partial
from typing import Any

import pytest

from backend.runtime.execution import segment_run
from backend.runtime.execution.closing import store_result
from backend.runtime.promotion import StoredResult
from backend.services.outputs.sql import outputs_of
from backend.storage.tables.files import OutputRow
from tests.services.runtime.conftest import RuntimeWorld, agent_step
from tests.support.poll import until
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


async def _store_then_cancel(world: RuntimeWorld, *args: Any) -> StoredResult:
    stored = await store_result(*args)
    await asyncio.to_thread(world.cancel, args[1].run_id)
    return stored


def _bundle(world: RuntimeWorld, run_id: str) -> dict[str, bytes]:
    request = outputs_pb2.GetOutputsZipRequest(run_id=run_id)
    header, *parts = world.outputs.stream("GetOutputsZip", request, world.key).rest()
    data = b"".join(part.data for part in parts)
    assert len(data) == header.header.length
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.parametrize("agent", ["writer", "large"])
def test_a_run_that_is_cancelled_once_its_result_is_stored_has_the_outputs_of_its_steps_alone(
    world: RuntimeWorld, monkeypatch: pytest.MonkeyPatch, agent: str
) -> None:
    monkeypatch.setattr(segment_run, "store_result", partial(_store_then_cancel, world))
    run_id = world.run("Result", [agent_step("main", agent)], workflow={"result": {"step": "main"}})
    row = world.until_ended(run_id)
    files = {"writer": {"main/notes/a.txt": b"", "main/table.csv": b"a,b"}, "large": {}}[agent]
    assert (row.status, row.result, row.outputs_count) == ("cancelled", None, len(files))
    assert _bundle(world, run_id) == files
    until(lambda: _objects(world) == len(files), "the removal of the result")


async def _publish_then_cancel(world: RuntimeWorld, *args: Any, **_: Any) -> list[str]:
    await asyncio.to_thread(world.cancel, args[1])
    return []


def test_a_run_that_is_cancelled_while_it_publishes_keeps_the_result_that_was_promoted(
    world: RuntimeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_run, "publish", partial(_publish_then_cancel, world))
    world.apply('{"kind": "KnowledgeGraph", "name": "facts", "base_iri": "https://graph.example.org/"}')
    workflow = {"result": {"step": "main"}, "publish": [{"knowledge_graph": "facts"}]}
    run_id = world.run("Result", [agent_step("main", "echo")], workflow=workflow)
    row = world.until_ended(run_id)
    assert (row.status, row.result, row.outputs_count) == ("cancelled", None, 1)
    assert _bundle(world, run_id) == {"result.json": b'{"step":null,"needs":{}}'}
