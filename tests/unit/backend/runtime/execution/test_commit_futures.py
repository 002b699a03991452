"""Changes of the embedded database as futures of an event loop."""

import asyncio
import threading
from concurrent.futures import Future
from typing import Any

from backend.runtime.execution.commit_futures import CommitFutures


def test_changes_end_with_their_results_and_errors_and_one_that_nobody_waits_for_spares_the_others() -> None:
    changes: list[Future[Any]] = [Future() for _ in range(3)]

    def commit() -> None:
        changes[0].set_result("zero")
        changes[1].set_result("one")
        changes[2].set_exception(KeyError("two"))

    async def run() -> list[Any]:
        futures = CommitFutures()
        waiting = [futures.of(change) for change in changes]
        waiting[0].cancel()
        writer = threading.Thread(target=commit)
        writer.start()
        try:
            return await asyncio.gather(*waiting, return_exceptions=True)
        finally:
            writer.join()

    cancelled, one, two = asyncio.run(run())
    assert isinstance(cancelled, asyncio.CancelledError)
    assert one == "one"
    assert isinstance(two, KeyError)
    assert changes[0].result() == "zero"


def test_a_change_that_is_over_already_is_a_future_too() -> None:
    change: Future[str] = Future()
    change.set_result("done")

    async def run() -> str:
        return await CommitFutures().of(change)

    assert asyncio.run(run()) == "done"
