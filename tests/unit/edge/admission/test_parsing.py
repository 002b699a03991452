"""Large bodies wait in lines: of one owner after the other, and of callers without a key apart from those with one."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from contract.refusals import Refusal
from edge.admission import parsing
from edge.admission.parsing import BodyParser, ParsingQueue
from tests.support.poll import until


class Parser:
    """Stands for the parser of bodies: notes them, and waits where it is told to."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.go_on = threading.Event()

    def __call__(self, body: bytes) -> bytes:
        self.bodies.append(body)
        assert self.go_on.wait(60)
        return body


@pytest.fixture
def parser(monkeypatch: pytest.MonkeyPatch) -> Iterator[Parser]:
    parser = Parser()
    monkeypatch.setattr(parsing, "parse_json_body", parser)
    yield parser
    parser.go_on.set()


def in_line(most_waiting: int, use: Callable[[ParsingQueue], Any]) -> Any:
    async def attempt() -> Any:
        line = ParsingQueue(most_waiting, "line")
        try:
            async with asyncio.timeout(60):
                return await use(line)
        finally:
            line.close()

    return asyncio.run(attempt())


async def begun(*calls: Any) -> list[asyncio.Task[Any]]:
    tasks = [asyncio.create_task(call) for call in calls]
    for _ in tasks:
        await asyncio.sleep(0)
    return tasks


def test_owners_have_their_bodies_parsed_in_turn(parser: Parser) -> None:
    async def use(line: ParsingQueue) -> None:
        tasks = await begun(*(line.parse(name[:1], name.encode()) for name in ("a1", "a2", "a3", "b1", "c1")))
        parser.go_on.set()
        await asyncio.gather(*tasks)

    in_line(8, use)
    assert parser.bodies == [b"a1", b"a2", b"b1", b"c1", b"a3"]


def test_beyond_so_many_bodies_the_owner_of_the_most_is_refused(parser: Parser) -> None:
    async def use(line: ParsingQueue) -> list[Any]:
        names = ("a1", "a2", "a3", "a4", "b1", "b2")
        tasks = await begun(*(line.parse(name[:1], name.encode()) for name in names))
        parser.go_on.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    first, second, *rest = in_line(3, use)
    assert (first, second) == (b"a1", b"a2")
    refused = [one for one in rest if isinstance(one, Refusal)]
    assert [one.code for one in refused] == ["runtime_unreachable"] * 2
    assert {b"b1", b"b2"} <= {one for one in rest if isinstance(one, bytes)}


def test_a_turn_that_is_given_up_goes_to_the_next(parser: Parser) -> None:
    async def use(line: ParsingQueue) -> Any:
        under_way, waiting, last = await begun(line.parse("a", b"1"), line.parse("b", b"2"), line.parse("c", b"3"))
        waiting.cancel()
        under_way.cancel()
        parser.go_on.set()
        return await last

    assert in_line(8, use) == b"3"
    assert parser.bodies == [b"1", b"3"]


def test_a_body_that_is_malformed_leaves_the_turn_to_the_next() -> None:
    async def use(line: ParsingQueue) -> tuple[Any, Any]:
        return await asyncio.gather(line.parse("a", b"{"), line.parse("b", b"[]"), return_exceptions=True)

    refused, parsed = in_line(8, use)
    assert (refused.code, parsed) == ("invalid_request", [])


def test_others_do_not_stand_before_callers_with_a_key(parser: Parser) -> None:
    async def attempt() -> Any:
        both = BodyParser()
        try:
            without_key = await begun(*(both.parse("", "192.0.2.1", b"%d" % number) for number in range(9)))
            # The parser waits in the one line.
            with_key = asyncio.create_task(both.parse("ak_1", "192.0.2.1", b"mine"))
            await asyncio.to_thread(until, lambda: b"mine" in parser.bodies, "the body of the key")
            assert parser.bodies == [b"0", b"mine"]
            parser.go_on.set()
            for each in without_key:
                each.cancel()
            return await with_key
        finally:
            both.close()

    assert asyncio.run(attempt()) == b"mine"
