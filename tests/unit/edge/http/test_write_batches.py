import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from edge.http.write_batches import WriteBatch, WriteBatches


class Transport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def is_closing(self) -> bool:
        return self.closed


def in_loop(work: Callable[[WriteBatches], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        await work(WriteBatches())

    asyncio.run(run())


def test_what_is_written_in_a_turn_is_sent_in_order_at_its_end() -> None:
    async def work(write_batches: WriteBatches) -> None:
        first, second = Transport(), Transport()
        for number in range(3):
            WriteBatch(first, write_batches).write(b"%d" % number)
        batch = WriteBatch(second, write_batches)
        batch.write(b"a")
        batch.write(b"b")
        assert (first.written, second.written) == ([], [])
        await asyncio.sleep(0)
        assert (first.written, second.written) == ([b"0", b"1", b"2"], [b"ab"])

    in_loop(work)


def test_many_bytes_are_sent_at_once_behind_what_came_before() -> None:
    async def work(write_batches: WriteBatches) -> None:
        transport = Transport()
        batch = WriteBatch(transport, write_batches)
        batch.write(b"head")
        batch.write(b"x" * 65_536)
        assert [len(data) for data in transport.written] == [4, 65_536]
        for _ in range(4):
            batch.write(b"y" * 20_000)
        assert [len(data) for data in transport.written] == [4, 65_536, 60_000, 20_000]
        await asyncio.sleep(0)
        assert len(transport.written) == 4

    in_loop(work)


def test_a_connection_that_closes_in_the_same_turn_holds_up_no_other() -> None:
    async def work(write_batches: WriteBatches) -> None:
        closed, open_ = Transport(), Transport()
        WriteBatch(closed, write_batches).write(b"late")
        WriteBatch(open_, write_batches).write(b"kept")
        closed.closed = True
        await asyncio.sleep(0)
        assert (closed.written, open_.written) == ([], [b"kept"])

    in_loop(work)


def test_what_is_flushed_is_not_sent_again() -> None:
    async def work(write_batches: WriteBatches) -> None:
        transport = Transport()
        batch = WriteBatch(transport, write_batches)
        batch.write(b"once")
        batch.flush()
        await asyncio.sleep(0)
        assert transport.written == [b"once"]

    in_loop(work)
