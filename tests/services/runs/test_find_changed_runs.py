"""FindChangedRuns, by which edges compare what they have read."""

import pytest

from backend.services.runs.sql import RUNS_AT_ONCE
from tests.services.calls import RefusedError
from tests.services.runs.world import World
from workflow_api.v1 import runs_pb2


def _changed(world: World, *read: runs_pb2.ReadRun) -> list[str]:
    answer = world.runs("FindChangedRuns", runs_pb2.FindChangedRunsRequest(runs=read))
    return list(answer.run_ids)


def _read(world: World, run_id: str) -> runs_pb2.ReadRun:
    return runs_pb2.ReadRun(run_id=run_id, etag=world.get(run_id).etag)


def test_only_runs_that_changed_are_named(world: World) -> None:
    unchanged, changed = (_read(world, world.started()) for _ in range(2))
    assert _changed(world) == []
    assert _changed(world, unchanged, changed) == []
    world.begin(changed.run_id)
    assert _changed(world, unchanged, changed) == [changed.run_id]
    assert _changed(world, unchanged, _read(world, changed.run_id)) == []


def test_a_run_that_is_gone_has_changed(world: World) -> None:
    assert _changed(world, runs_pb2.ReadRun(run_id="run_none", etag="1")) == ["run_none"]


def test_no_more_runs_than_one_statement_takes(world: World) -> None:
    run = _read(world, world.started())
    assert _changed(world, *[run] * RUNS_AT_ONCE) == []
    with pytest.raises(RefusedError) as caught:
        _changed(world, *[run] * (RUNS_AT_ONCE + 1))
    assert caught.value.reason == "invalid_request"
