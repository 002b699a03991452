"""Estimated sizes of workflows: finished runs with data, from their newest, in objects and in rows."""

import json
from pathlib import Path
from typing import Any

import pytest

from backend.services.outputs.sql import NewOutput, add_outputs
from backend.services.runs.lifecycle import RunResult
from backend.storage.object_keys import result_row_key
from tests.services.calls import Caller
from tests.services.runs.world import World
from workflow_api.v1 import deployment_health_pb2 as pb
from workflow_api_testing import TestBackend

TEXT = "a text that takes room "


@pytest.fixture
def world(backend: TestBackend, tmp_path: Path) -> World:
    return World(backend.composition.services, backend.clock, tmp_path)


@pytest.fixture
def caller(backend: TestBackend) -> Caller:
    return Caller.of_backend(backend)


def size_of(caller: Caller, name: str) -> pb.WorkflowSize:
    answer: pb.ListWorkflowSizesResponse = caller("ListWorkflowSizes", pb.ListWorkflowSizesRequest(page_size=100))
    [found] = [each for each in answer.items if each.workflow_name == name]
    return found


def finished(world: World, *outputs: bytes, **fields: Any) -> str:
    run_id = world.started(**fields)
    world.begin(run_id)
    for number, data in enumerate(outputs):
        world.output(run_id, f"first/{number}.txt", data)
    world.clock.advance(seconds=1)
    assert world.close(run_id)
    return run_id


def test_finished_runs_with_data_are_counted_with_their_objects(world: World, caller: Caller) -> None:
    world.started()
    assert size_of(caller, "Plain").runs == 0
    finished(world, b"x" * 1_000, b"y" * 500)
    finished(world, b"z" * 700)
    found = size_of(caller, "Plain")
    assert (found.runs, found.sampled_runs, found.has_more_runs, found.object_bytes) == (2, 2, False, 2_200)
    assert size_of(caller, "Gated") == pb.WorkflowSize(workflow_id=world.workflows["Gated"], workflow_name="Gated")


def test_a_result_in_its_row_counts_in_the_database_alone(world: World, caller: Caller) -> None:
    run_id = finished(world)
    empty = size_of(caller, "Plain").database_bytes
    assert 200 < empty < 20_000
    world.erase(run_id)
    result, run_id = json.dumps(TEXT * 2_000), world.started()
    world.begin(run_id)
    row = NewOutput("out_1", run_id, "result.json", None, "text/plain", 9, "0", result_row_key(run_id), 0)
    world.services.database.write(lambda tx: add_outputs(tx, [row], world.clock()))
    world.clock.advance(seconds=1)
    assert world.close(run_id, result=RunResult(value=result))
    found = size_of(caller, "Plain")
    assert (found.runs, found.object_bytes) == (1, 0)
    # PostgreSQL compresses it.
    assert found.database_bytes > empty + 500


def test_sizes_are_those_of_the_newest_runs_times_all_runs(world: World, caller: Caller) -> None:
    for _ in range(5):
        finished(world, b"x" * 9_000, key=world.key)
    for _ in range(20):
        finished(world, b"x" * 1_000)
    found = size_of(caller, "Plain")
    assert (found.runs, found.sampled_runs, found.object_bytes) == (25, 20, 25_000)


def test_erased_runs_take_nothing(world: World, caller: Caller) -> None:
    first, _ = finished(world, b"x" * 100), finished(world, b"x" * 300)
    world.erase(first)
    found = size_of(caller, "Plain")
    assert (found.runs, found.object_bytes) == (1, 300)


def test_a_count_ends_at_its_bound_and_says_so(world: World, caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backend.services.health.size_sql.MOST_COUNTED", 2)
    for _ in range(3):
        finished(world, b"x" * 100)
    found = size_of(caller, "Plain")
    assert (found.runs, found.has_more_runs, found.object_bytes) == (2, True, 200)
