"""The future of a change that waits for its commit."""

import threading
from concurrent.futures import Future

import pytest

from backend.storage.commit_future import CommitFuture


def test_each_action_is_called_once_before_and_after_the_end_also_where_one_fails() -> None:
    future, called = CommitFuture[int](), list[str]()

    def fail(_: Future[int]) -> None:
        raise ValueError

    future.add_done_callback(fail)
    future.add_done_callback(lambda ended: called.append(f"before: {ended.result()}"))
    future.set_result(7)
    future.add_done_callback(lambda ended: called.append(f"after: {ended.result()}"))
    assert called == ["before: 7", "after: 7"]


def test_its_text_says_whether_it_is_over() -> None:
    future = CommitFuture[int]()
    before = repr(future)
    future.set_result(7)
    assert (before, repr(future)) == ("<CommitFuture pending>", "<CommitFuture over>")


def test_threads_that_wait_get_what_the_change_raised() -> None:
    future = CommitFuture[int]()
    with pytest.raises(TimeoutError):
        future.result(timeout=0)
    found: list[BaseException | None] = []
    waiting = [threading.Thread(target=lambda: found.append(future.exception(10))) for _ in range(2)]
    for thread in waiting:
        thread.start()
    error = ValueError("refused")
    future.set_exception(error)
    for thread in waiting:
        thread.join(10)
    assert found == [error, error]
    with pytest.raises(ValueError, match="refused"):
        future.result()


def test_a_change_cannot_be_cancelled() -> None:
    future = CommitFuture[int]()
    assert not future.cancel()
    assert (future.cancelled(), future.running(), future.done()) == (False, True, False)
