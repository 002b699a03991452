import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from edge.http.outbox import Outbox, Outboxes


class Transport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def is_closing(self) -> bool:
        return self.closed


def in_loop(work: Callable[[Outboxes], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        await work(Outboxes())

    asyncio.run(run())


def test_what_is_written_in_a_turn_is_sent_in_order_at_its_end() -> None:
    async def work(outboxes: Outboxes) -> None:
        first, second = Transport(), Transport()
        for number in range(3):
            Outbox(first, outboxes).write(b"%d" % number)
        outbox = Outbox(second, outboxes)
        outbox.write(b"a")
        outbox.write(b"b")
        assert (first.written, second.written) == ([], [])
        await asyncio.sleep(0)
        assert (first.written, second.written) == ([b"0", b"1", b"2"], [b"ab"])

    in_loop(work)


def test_many_bytes_are_sent_at_once_behind_what_came_before() -> None:
    async def work(outboxes: Outboxes) -> None:
        transport = Transport()
        outbox = Outbox(transport, outboxes)
        outbox.write(b"head")
        outbox.write(b"x" * 65_536)
        assert [len(data) for data in transport.written] == [4, 65_536]
        for _ in range(4):
            outbox.write(b"y" * 20_000)
        assert [len(data) for data in transport.written] == [4, 65_536, 60_000, 20_000]
        await asyncio.sleep(0)
        assert len(transport.written) == 4

    in_loop(work)


def test_a_connection_that_closes_in_the_same_turn_holds_up_no_other() -> None:
    async def work(outboxes: Outboxes) -> None:
        closed, open_ = Transport(), Transport()
        Outbox(closed, outboxes).write(b"late")
        Outbox(open_, outboxes).write(b"kept")
        closed.closed = True
        await asyncio.sleep(0)
        assert (closed.written, open_.written) == ([], [b"kept"])

    in_loop(work)


def test_what_is_flushed_is_not_sent_again() -> None:
    async def work(outboxes: Outboxes) -> None:
        transport = Transport()
        outbox = Outbox(transport, outboxes)
        outbox.write(b"once")
        outbox.flush()
        await asyncio.sleep(0)
        assert transport.written == [b"once"]

    in_loop(work)
