"""Steps and items of a run that execute at the same time."""

import asyncio
from collections.abc import Awaitable, Callable

from backend.runtime.execution.run_capacity import RunCapacity


def _played(scene: Callable[[RunCapacity], Awaitable[None]], most: int) -> None:
    async def play() -> None:
        await scene(RunCapacity(most))

    asyncio.run(play())


class Item:
    """An item that executes until it is ended."""

    def __init__(self, capacity: RunCapacity) -> None:
        self.executes = False
        self._end = asyncio.Event()
        self.task = asyncio.create_task(self._run(capacity))

    async def _run(self, capacity: RunCapacity) -> None:
        async with capacity.item():
            self.executes = True
            await self._end.wait()
        self.executes = False

    async def end(self) -> None:
        self._end.set()
        await self.task
        await settled()


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_steps_and_items_together_are_at_most_so_many() -> None:
    async def scene(capacity: RunCapacity) -> None:
        assert capacity.admit_steps(0, 1) == 1
        items = [Item(capacity) for _ in range(4)]
        await settled()
        assert [item.executes for item in items] == [True, True, False, False]
        await items[0].end()
        assert [item.executes for item in items] == [False, True, True, False]
        assert capacity.admit_steps(0, 0) == 0
        await settled()
        assert [item.executes for item in items] == [False, True, True, True]
        for item in items[1:]:
            await item.end()

    _played(scene, 3)


def test_a_step_that_waits_goes_before_items_and_hears_of_room() -> None:
    async def scene(capacity: RunCapacity) -> None:
        first, second = Item(capacity), Item(capacity)
        await settled()
        assert capacity.admit_steps(0, 1) == 0
        await first.end()
        # Also where nobody waited for it yet.
        assert (capacity.freed.done(), second.executes) == (True, False)
        assert capacity.admit_steps(0, 1) == 1
        assert not capacity.freed.done()
        assert capacity.admit_steps(0, 0) == 0
        await settled()
        assert second.executes
        await second.end()

    _played(scene, 1)


def test_an_item_that_is_cancelled_leaves_its_room() -> None:
    async def scene(capacity: RunCapacity) -> None:
        executing, waiting, last = (Item(capacity) for _ in range(3))
        await settled()
        waiting.task.cancel()
        await settled()
        # Admitted by the end of the first, and cancelled before it goes on.
        granted = Item(capacity)
        await settled()
        executing.task.cancel()
        await settled()
        assert last.executes
        last.task.cancel()
        granted.task.cancel()
        await settled()
        assert capacity.admit_steps(0, 1) == 1

    _played(scene, 1)
