"""The embedded engine under calls from many threads; its segments only wait until they are stopped."""

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from backend.runtime.engines.local import LocalEngine
from backend.runtime.execution import segment
from tests.support.fake_segments import FakeSegment

ROUNDS = 150


@pytest.fixture(autouse=True)
def waiting_segments(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    FakeSegment.reset()
    monkeypatch.setattr(segment, "Segment", FakeSegment)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def engine() -> LocalEngine:
    context: Any = SimpleNamespace(owner="")
    made = LocalEngine(context, lambda: None)
    made.start()
    return made


def together(*works: Callable[[], None]) -> None:
    """Calls each in a thread of its own, all from the same moment; raises what one of them raised."""
    barrier = threading.Barrier(len(works))
    failures: list[BaseException] = []

    def call(work: Callable[[], None]) -> None:
        barrier.wait()
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised below
            failures.append(error)

    threads = [threading.Thread(target=call, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    if failures:
        raise failures[0]


def submit_all(one: LocalEngine, ids: list[str], refused: list[str]) -> None:
    for segment_id in ids:
        try:
            one.submit(segment_id, 1)
        except RuntimeError:
            refused.append(segment_id)


def cancel_all(one: LocalEngine, ids: list[str]) -> None:
    for segment_id in ids:
        one.cancel(segment_id)


def execute(one: LocalEngine, waiting: list[Future[None]]) -> None:
    waiting.append(one.execute("short"))


@pytest.mark.parametrize("end", ["stop", "abort"])
def test_a_segment_that_is_submitted_while_the_engine_ends_is_executed_to_its_end_or_refused(end: str) -> None:
    random = Random(10)
    for number in range(ROUNDS):
        one = engine()
        ids = [f"{random.choice(['long', 'short'])}-{number}-{each}" for each in range(random.randrange(1, 12))]
        refused: list[str] = []
        split = random.randrange(len(ids) + 1)
        works: list[Callable[[], None]] = [
            partial(submit_all, one, ids[:split], refused),
            partial(submit_all, one, ids[split:], refused),
            partial(cancel_all, one, ids),
            partial(one.stop, 60 if end == "abort" else 0),
        ]
        if end == "abort":
            works.append(one.abort)
        together(*works)
        assert sorted(FakeSegment.begun) == sorted(FakeSegment.ended)
        assert sorted([*FakeSegment.begun, *refused]) == sorted(ids)
        assert one.running == 0
        FakeSegment.reset()


def test_a_segment_that_many_threads_submit_at_once_begins_once() -> None:
    one = engine()
    for number in range(ROUNDS):
        together(*[partial(one.submit, f"long-{number}", 1)] * 4)
    assert one.running == ROUNDS
    one.stop(0)
    assert sorted(FakeSegment.begun) == sorted(f"long-{number}" for number in range(ROUNDS))


def test_whoever_waits_for_a_segment_hears_of_its_end_however_close_it_is() -> None:
    one = engine()
    for _ in range(ROUNDS):
        waiting: list[Future[None]] = []
        together(*[partial(execute, one, waiting)] * 4)
        for ended in waiting:
            ended.result(60)
    one.stop(0)


def test_an_ended_engine_takes_cancels_and_aborts_and_refuses_segments() -> None:
    one = engine()
    one.submit("long", 1)
    one.stop(0)
    one.cancel("long")
    one.abort()
    with pytest.raises(RuntimeError):
        one.submit("other", 1)
    with pytest.raises(RuntimeError):
        one.execute("other")
    assert not one.executes("long")


def test_an_engine_that_never_started_can_be_aborted_and_stopped() -> None:
    context: Any = SimpleNamespace(owner="")
    one = LocalEngine(context, lambda: None)
    one.abort()
    one.stop(60)
    assert one.running == 0


def test_an_engine_that_stops_executes_what_was_reserved_and_takes_no_more() -> None:
    one = engine()
    claimed: Any = None
    assert one.reserve("short")
    assert one.reserve("not committed")
    assert one.executes("short")
    one.release("not committed")
    assert not one.executes("not committed")
    stopping = threading.Thread(target=one.stop, args=(60,))
    stopping.start()
    while one.reserve("late"):
        one.release("late")
    one.confirm("short", claimed)
    stopping.join(60)
    assert not stopping.is_alive()
    assert FakeSegment.ended == ["short"]
    assert not one.executes("short")
