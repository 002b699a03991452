import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from deploy.serve.embedded import on_own_loop

Place = tuple[int, asyncio.AbstractEventLoop]


def here() -> Place:
    return threading.get_ident(), asyncio.get_running_loop()


def test_a_part_is_entered_and_left_on_one_other_loop_in_one_other_thread() -> None:
    places: list[Place] = []

    @asynccontextmanager
    async def part() -> AsyncIterator[str]:
        places.append(here())
        yield "address"
        places.append(here())

    async def run() -> Place:
        async with on_own_loop("part", part) as value:
            assert value == "address"
            assert len(places) == 1
        return here()

    thread, loop = asyncio.run(run())
    entered, left = places
    assert entered == left
    assert entered[0] != thread
    assert entered[1] is not loop


def test_what_keeps_a_part_from_being_entered_is_raised() -> None:
    @asynccontextmanager
    async def part() -> AsyncIterator[str]:
        raise ValueError("in use")
        yield ""

    async def run() -> None:
        async with on_own_loop("part", part):
            raise AssertionError

    with pytest.raises(ValueError, match="in use"):
        asyncio.run(run())


def test_a_part_is_left_where_what_it_serves_fails() -> None:
    left: list[bool] = []

    @asynccontextmanager
    async def part() -> AsyncIterator[str]:
        yield ""
        left.append(True)

    async def run() -> None:
        async with on_own_loop("part", part):
            raise KeyError

    with pytest.raises(KeyError):
        asyncio.run(run())
    assert left == [True]
