"""Starts on a database server: one round trip each, and none by facts that no longer hold."""

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

from backend.common.paging import Cursors
from backend.services.dependencies import Services
from backend.services.deployment import sql as deployment_sql
from backend.services.model_usage.sql import AttemptUsage, record
from backend.services.runs.start.rules import claim_of
from backend.storage.factory import open_postgresql
from tests.services.calls import RefusedError
from tests.services.conftest import TestClock
from tests.services.runs.test_start_refusals import explicit, hold_licence
from tests.services.runs.world import World
from tests.support.long_wire import LongWire
from tests.support.postgresql import Postgresql, end_sessions
from workflow_api.v1 import keys_pb2


@pytest.fixture(scope="module")
def wire(postgresql_server: Postgresql) -> LongWire:
    parts = psycopg.conninfo.conninfo_to_dict(postgresql_server.shared)
    wire = LongWire(str(parts["host"]), int(parts.get("port") or 5432))
    threading.Thread(target=wire.serve, daemon=True).start()
    return wire


@pytest.fixture
def server_world(wire: LongWire, postgresql_server: Postgresql, clock: TestClock, tmp_path: Path) -> Iterator[World]:
    """A world on a server that is reached by the wire, whatever the other tests keep their data on."""
    postgresql_server.empty()
    url = psycopg.conninfo.make_conninfo(postgresql_server.shared, host="127.0.0.1", port=wire.port)
    database = open_postgresql(url, 4)
    deployment = database.write(lambda tx: deployment_sql.get_or_create(tx, "dep-test"))
    yield World(Services(database, clock, deployment.deployment_id, Cursors(b"c" * 32)), clock, tmp_path)
    database.close()


def refusal(world: World, **fields: Any) -> str:
    with pytest.raises(RefusedError) as caught:
        world.start(**fields)
    return caught.value.reason


def edit(world: World, key: str, **fields: Any) -> None:
    world.keys("UpdateKey", keys_pb2.UpdateKeyRequest(key_id=key, **fields))


def test_a_start_is_one_round_trip_and_what_is_not_as_before_a_few_more(server_world: World, wire: LongWire) -> None:
    world = server_world
    key = world.new_key(max_concurrent_runs=3)

    def trips(idempotency_key: str, *, refused: bool = False) -> int:
        wire.taken()
        if refused:
            refusal(world, idempotency_key=idempotency_key, key=key)
        else:
            world.start("Plain", idempotency_key, key=key)
        return wire.taken()

    trips("terms and connection are new")
    assert [trips("second"), trips("third")] == [1, 1]
    assert trips("third") == 4, "a replay is decided like any start, and reads the run"
    assert trips("full", refused=True) == 2


def left(world: World, run_id: str) -> dict[str, Any]:
    """Every row that a start left, without its ids."""
    (segment,) = [row.segment_id for row in world.dump("segments") if row.run_id == run_id]
    (record,) = [row.idempotency_key for row in world.dump("idempotency_records") if row.run_id == run_id]
    tables = ("runs", "steps", "segments", "idempotency_records")
    rows = {name: [row._asdict() for row in world.dump(name) if row.run_id == run_id] for name in tables}
    text = json.dumps(rows, sort_keys=True)
    for id_, name in ((run_id, "run"), (segment, "segment"), (record, "record")):
        text = text.replace(id_, name)
    found: dict[str, Any] = json.loads(text)
    return found


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {
            "workflow": "Swept",
            "input_text": "\ufffe é %s $1",
            "client_reference": "order 7",
            "labels": {"a": "", "b": "'"},
        },
        {"workflow": "Gated"},
        {"parameters": {"language": "fr", "count": 2}, "version": 1},
    ],
)
def test_a_start_in_one_round_trip_leaves_what_any_start_leaves(server_world: World, fields: dict[str, Any]) -> None:
    world = server_world
    first, second = world.started(**fields), world.started(**fields)
    assert left(world, first) == left(world, second)
    assert world.count("daily_usage", f"key_id = '{world.key}' AND runs_started = 2") == 1
    assert world.runtime.woken == 2
    world.clock.advance(days=1)
    world.started(**fields)
    assert world.count("daily_usage", "runs_started = 1") == 1


def take_the_last_slot(world: World, key: str) -> None:
    edit(world, key, max_concurrent_runs=1)


def use_up_the_quota(world: World, key: str) -> None:
    edit(world, key, daily_run_quota=1)


def use_up_the_tokens(world: World, key: str) -> None:
    edit(world, key, daily_tokens=1_000)
    use_models(world, key)


def use_models(world: World, key: str) -> None:
    """Records 1,000 tokens for 500 millionths of a dollar by the key's only run."""
    usage = AttemptUsage("first", -1, 1, "openai:gpt-5", 1, 900, 100, 0, 500)
    (run_id,) = [row.run_id for row in world.dump("runs") if row.key_id == key]
    world.services.database.write(lambda tx: record(tx, run_id, world.clock(), [usage]))


def use_up_the_cost(world: World, key: str) -> None:
    edit(world, key, daily_cost_microusd=500)
    use_models(world, key)


def lose_the_workflow(world: World, key: str) -> None:
    edit(world, key, workflow_access=explicit(world.workflows["Gated"]))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda world, _: hold_licence(world), "license_unavailable"),
        (lambda world, _: world.switch("Plain", active=False), "workflow_not_active"),
        (lambda world, _: world.apply("kind: Environment\nname: standard\nstatus: inactive"), "workflow_not_ready"),
        (lambda world, key: world.keys("DeleteKey", keys_pb2.DeleteKeyRequest(key_id=key)), "unauthorized"),
        (lose_the_workflow, "workflow_not_found"),
        (take_the_last_slot, "too_many_active_runs"),
        (use_up_the_quota, "quota_exceeded"),
        (use_up_the_tokens, "quota_exceeded"),
        (use_up_the_cost, "quota_exceeded"),
    ],
)
def test_a_change_since_the_keys_last_start_applies(
    server_world: World, change: Callable[[World, str], object], reason: str
) -> None:
    world = server_world
    key = world.new_key()
    world.start(key=key)
    if reason == "unauthorized":
        world.keys("RevokeKey", keys_pb2.RevokeKeyRequest(key_id=key))
    change(world, key)
    assert refusal(world, key=key) == reason
    assert (world.count("runs"), world.count("segments")) == (1, 1)


def test_a_version_applied_since_the_last_start_is_the_one_started(server_world: World) -> None:
    world = server_world
    world.start()
    world.apply("kind: Workflow\nname: Plain\nstatus: active\nsteps: [{step: only, approval: {title: Look}}]")
    run = world.start().run.summary
    assert (run.version, run.counts.steps_total) == (2, 1)


def test_a_refused_idempotency_key_is_bound_and_starts_once_nothing_refuses_it(server_world: World) -> None:
    world = server_world
    key = world.new_key(max_concurrent_runs=2)
    first = world.started(key=key)
    world.start(key=key)
    assert refusal(world, idempotency_key="k", key=key) == "too_many_active_runs"
    world.close(first, "cancelled")
    assert refusal(world, workflow="Gated", idempotency_key="k", key=key) == "idempotency_conflict"
    assert not world.start("Plain", "k", key=key).replayed
    assert world.start("Plain", "k", key=key).replayed


def test_a_start_while_another_is_undecided_is_refused_with_retry_after(server_world: World) -> None:
    world = server_world
    world.start()
    entered, release = threading.Event(), threading.Event()

    def hold(tx: Any) -> None:
        deployment_sql.get(tx)
        entered.set()
        assert release.wait(60)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(world.services.database.write, hold, lock_key="elsewhere", claim=claim_of(world.key, "k"))
        assert entered.wait(60)
        try:
            assert refusal(world, idempotency_key="k") == "idempotency_conflict"
        finally:
            release.set()
    assert not world.start("Plain", "k").replayed


def test_a_start_whose_connection_ends_after_it_holds_is_not_made_twice(server_world: World, wire: LongWire) -> None:
    world = server_world
    world.start()
    wire.break_next_answer()
    answer = world.start("Plain", "k")
    assert not answer.replayed
    assert world.count("runs") == 2
    assert world.start("Plain", "k").run == answer.run


def test_a_start_after_a_restart_of_the_server_is_made(server_world: World, postgresql_server: Postgresql) -> None:
    world = server_world
    world.start()
    end_sessions(postgresql_server.shared)
    assert not world.start("Plain", "k").replayed
    assert world.count("runs") == 2
