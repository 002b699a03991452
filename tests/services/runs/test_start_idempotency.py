"""Idempotency keys. (contract 12.7 to 12.17)"""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from backend.services.runs.start import sql
from backend.services.runs.start.rules import claim_of
from backend.storage.database import Tx
from tests.services.calls import RefusedError
from tests.services.runs.world import World

DAY_SECONDS = 86_400


def refused(world: World, *args: Any, **fields: Any) -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        world.start(*args, **fields)
    return caught.value


def test_a_replay_answers_the_run_as_it_is_now(world: World) -> None:
    run_id = world.start("Plain", "k", input_text="x").run.summary.run_id
    world.begin(run_id)
    world.close(run_id)
    replay = world.start("Plain", "k", input_text="x")
    assert replay.replayed
    assert replay.run == world.get(run_id)
    assert world.count("runs") == 1


def test_a_replay_needs_only_the_record(world: World) -> None:
    """The workflow may be inactive by then, slots and quota full."""
    key = world.new_key(max_concurrent_runs=1, daily_run_quota=1)
    first = world.start("Plain", "k", key=key)
    world.switch("Plain", active=False)
    assert world.start("Plain", "k", key=key).run == first.run
    assert world.count("daily_usage", "runs_started = 1") == 1


def test_bodies_are_compared_by_value_and_not_by_spelling(world: World) -> None:
    first = world.start("Plain", "k", parameters='{"count": 3, "language": "fr"}')
    again = world.start("Plain", "k", parameters='{ "language":"\\u0066r","count":3}')
    assert again.replayed
    assert again.run == first.run


@pytest.mark.parametrize(
    "other",
    [
        {"parameters": {"count": 2**64 + 1}},
        {"parameters": {"count": 2**64}, "input_text": ""},
        {"parameters": {"count": 2**64}, "labels": {"a": ""}},
        {"parameters": {"count": 2**64}, "version": 1},
        {"parameters": {"count": 2**64}, "client_reference": "c"},
        {"parameters": {"count": 2**64}, "pii_policy_override": {"mode": "redact"}},
    ],
)
def test_another_body_under_the_same_key_conflicts(world: World, other: dict[str, Any]) -> None:
    world.start("Plain", "k", parameters={"count": 2**64})
    conflict = refused(world, "Plain", "k", **other)
    assert (conflict.reason, conflict.retry_after) == ("idempotency_conflict", None)


def test_another_workflow_under_the_same_key_conflicts(world: World) -> None:
    world.start("Plain", "k")
    assert refused(world, "Gated", "k").reason == "idempotency_conflict"


def test_records_of_two_keys_are_apart(world: World) -> None:
    assert not world.start("Plain", "k").replayed
    assert not world.start("Plain", "k", key=world.new_key()).replayed
    assert not world.start("Plain", "k", key=None).replayed
    assert world.start("Plain", "k", key=None).replayed


def test_a_refused_start_binds_its_key_to_its_body(world: World) -> None:
    for _ in range(2):
        assert refused(world, "Plain", "k", parameters={"language": "de"}).reason == "invalid_parameters"
    assert refused(world, "Plain", "k", parameters={"language": "fr"}).reason == "idempotency_conflict"


def test_a_refused_start_is_judged_again_with_the_same_key(world: World) -> None:
    key = world.new_key(max_concurrent_runs=1)
    running = world.started(key=key)
    assert refused(world, "Plain", "k", key=key).reason == "too_many_active_runs"
    world.close(running, "cancelled")
    first = world.start("Plain", "k", key=key)
    assert not first.replayed
    assert world.start("Plain", "k", key=key).run == first.run


def test_an_invalid_request_binds_nothing(world: World) -> None:
    assert refused(world, "Plain", "k", labels={"": "x"}).reason == "invalid_request"
    assert not world.start("Plain", "k").replayed


def test_a_record_holds_for_24_hours_from_its_first_use(world: World) -> None:
    key = world.new_key(max_concurrent_runs=1)
    running = world.started(key=key)
    refused(world, "Plain", "k", key=key)
    world.clock.advance(seconds=DAY_SECONDS / 2)
    world.close(running, "cancelled")
    first = world.start("Plain", "k", key=key)
    world.clock.advance(seconds=DAY_SECONDS / 2 - 1)
    assert world.start("Plain", "k", key=key).run == first.run
    world.clock.advance(seconds=1)
    world.close(first.run.summary.run_id, "cancelled")
    fresh = world.start("Gated", "k", key=key)
    assert not fresh.replayed
    assert world.start("Gated", "k", key=key).run == fresh.run


def test_a_record_of_a_clock_that_was_days_ahead_binds_nothing_once_that_is_right(world: World) -> None:
    world.clock.advance(days=30)
    first = world.start("Plain", "k")
    world.clock.advance(days=-30)
    assert world.start("Plain", "k").run != first.run
    world.clock.advance(seconds=-600)
    assert world.start("Plain", "k").replayed


def test_a_second_request_while_the_first_is_undecided_is_refused_with_retry_after(world: World) -> None:
    entered, release = threading.Event(), threading.Event()

    def hold(tx: Tx) -> None:
        sql.record(tx, world.key, "k")
        entered.set()
        assert release.wait(60)

    world.start("Plain", "done")
    with ThreadPoolExecutor(1) as pool:
        pool.submit(world.services.database.write, hold, lock_key="elsewhere", claim=claim_of(world.key, "k"))
        assert entered.wait(60)
        try:
            conflict = refused(world, "Plain", "k")
        finally:
            release.set()
    assert (conflict.reason, conflict.retry_after) == ("idempotency_conflict", 1)
    assert not world.start("Plain", "k").replayed


def test_sixteen_equal_starts_at_once_make_exactly_one_run(world: World) -> None:
    barrier = threading.Barrier(16)

    def start(_: int) -> str:
        barrier.wait()
        try:
            answer = world.start("Plain", "k", input_text="race")
        except RefusedError as error:
            return f"{error.reason} {error.retry_after}"
        return f"{answer.replayed} {answer.run.summary.run_id}"

    for _ in range(5):
        with ThreadPoolExecutor(16) as pool:
            outcomes = list(pool.map(start, range(16)))
        assert world.count("runs") == 1
        run_id = world.start("Plain", "k", input_text="race").run.summary.run_id
        assert set(outcomes) <= {f"False {run_id}", f"True {run_id}", "idempotency_conflict 1"}
        assert outcomes.count(f"False {run_id}") <= 1
    assert world.count("segments") == 1
    assert world.count("daily_usage", "runs_started = 1") == 1


@pytest.mark.parametrize(
    ("limits", "reason", "made"),
    [
        ({"max_concurrent_runs": 7, "daily_run_quota": 100}, "too_many_active_runs", 7),
        ({"max_concurrent_runs": 100, "daily_run_quota": 9}, "quota_exceeded", 9),
    ],
)
def test_slots_and_quota_are_exact_under_32_threads(
    world: World, limits: dict[str, int], reason: str, made: int
) -> None:
    key = world.new_key(**limits)
    barrier = threading.Barrier(32)

    def start(_: int) -> str:
        barrier.wait()
        try:
            world.start(key=key)
        except RefusedError as error:
            return error.reason
        return "started"

    with ThreadPoolExecutor(32) as pool:
        outcomes = list(pool.map(start, range(32)))
    assert sorted(outcomes) == sorted(["started"] * made + [reason] * (32 - made))
    assert world.count("runs") == made
    assert world.count("daily_usage", f"runs_started = {made}") == 1
