import asyncio

import pytest

from edge.http.body import BodyFailure, RequestBody


def test_a_body_is_the_sum_of_its_parts() -> None:
    body = RequestBody(5)
    for part in (b"ab", b"", b"cde"):
        body.feed(part)
    assert not body.complete
    body.finish()
    assert (body.complete, body.take()) == (True, b"abcde")
    assert body.take() == b""


def test_a_body_beyond_its_limit_fails_and_keeps_nothing() -> None:
    body = RequestBody(5)
    body.feed(b"abc")
    body.feed(b"def")
    body.feed(b"g")
    assert (body.failure, body.take()) == (BodyFailure.TOO_LARGE, b"")


def test_the_first_failure_is_final() -> None:
    body = RequestBody(5)
    body.fail(BodyFailure.LATE)
    body.fail(BodyFailure.INCOMPLETE)
    assert body.failure is BodyFailure.LATE


def test_a_discarded_body_keeps_nothing_and_has_no_limit() -> None:
    body = RequestBody(5)
    body.feed(b"abc")
    body.discard()
    body.feed(b"defgh")
    body.finish()
    assert (body.take(), body.failure, body.complete) == (b"", None, True)


@pytest.mark.parametrize("failure", [None, BodyFailure.MALFORMED])
def test_who_waits_is_woken_by_the_end_or_a_failure(failure: BodyFailure | None) -> None:
    async def attempt() -> None:
        body = RequestBody(5)
        waiting = asyncio.create_task(body.settled())
        await asyncio.sleep(0)
        body.feed(b"a")
        await asyncio.sleep(0)
        assert not waiting.done()
        body.finish() if failure is None else body.fail(failure)
        async with asyncio.timeout(30):
            await waiting
        assert body.failure is failure

    asyncio.run(attempt())
