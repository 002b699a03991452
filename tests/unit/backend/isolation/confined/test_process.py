import threading
from collections.abc import Iterator

import pytest

from backend.isolation.confined.process import Spawner


@pytest.fixture
def spawner() -> Iterator[Spawner]:
    spawner = Spawner("spawner")
    yield spawner
    spawner.close()


def test_all_work_is_done_by_one_thread_of_its_own(spawner: Spawner) -> None:
    threads = {spawner.submit(threading.get_ident).result() for _ in range(5)}
    assert len(threads) == 1
    assert threading.get_ident() not in threads


def test_urgent_work_goes_first(spawner: Spawner) -> None:
    gate = threading.Event()
    order: list[str] = []
    spawner.submit(gate.wait)
    later = spawner.submit(lambda: order.append("later"), urgent=False)
    spawner.submit(lambda: order.append("urgent"))
    gate.set()
    later.result()
    assert order == ["urgent", "later"]


def test_an_error_goes_to_who_asked_and_the_thread_lives_on(spawner: Spawner) -> None:
    with pytest.raises(ZeroDivisionError):
        spawner.submit(lambda: 1 / 0).result()
    assert spawner.submit(lambda: 7).result() == 7


def test_cancelled_work_is_not_done(spawner: Spawner) -> None:
    gate = threading.Event()
    done: list[int] = []
    spawner.submit(gate.wait)
    cancelled = spawner.submit(lambda: done.append(1))
    last = spawner.submit(lambda: None)
    assert cancelled.cancel()
    gate.set()
    last.result()
    assert done == []


def test_close_finishes_what_is_queued() -> None:
    spawner = Spawner("spawner")
    queued = [spawner.submit(lambda: None, urgent=urgent) for urgent in (False, True)]
    spawner.close()
    assert all(future.done() for future in queued)
