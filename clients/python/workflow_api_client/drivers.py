"""Drivers that perform the commands of operations with httpx: in the calling thread, or in an asyncio task."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Generator, Iterator
from typing import Any, Final, TypeVar

import httpx

from workflow_api_client.clock import Clock
from workflow_api_client.deadlines import Deadline, bound
from workflow_api_client.exchange import (
    Answer,
    Close,
    Command,
    Emit,
    Open,
    Pause,
    Read,
    Request,
    Send,
    Steps,
    TransportError,
    Work,
)

T = TypeVar("T")

_NEVER_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)
_REFUSED: Final = 300
# A caller's `http_client` may have other defaults, which would send the credentials elsewhere or replace them.
_SENDING: Final[dict[str, Any]] = {"stream": True, "follow_redirects": False, "auth": None}


class SyncDriver:
    """Driver that performs operations in the calling thread."""

    def __init__(self, http: httpx.Client, clock: Clock) -> None:
        self._http = http
        self._clock = clock
        self._deadline = bound(http)

    def run(self, steps: Steps[T]) -> T:
        """Performs an operation; returns its result."""
        performed = self._perform(steps)
        try:
            while True:
                next(performed)
        except StopIteration as done:
            result: T = done.value
            return result

    def iterate(self, steps: Steps[Any]) -> Generator[Any, None, None]:
        """Performs an operation; yields the items that it emits."""
        with contextlib.closing(self._perform(steps)) as performed:
            yield from performed

    def _perform(self, steps: Steps[T]) -> Generator[Any, None, T]:
        stream = _Stream(self._http, self._clock, self._deadline)
        outcome: Any = None
        failure: TransportError | None = None
        try:
            while True:
                try:
                    command = steps.throw(failure) if failure else steps.send(outcome)
                except StopIteration as done:
                    result: T = done.value
                    return result
                outcome, failure = None, None
                if isinstance(command, Emit):
                    yield command.item
                    continue
                try:
                    outcome = self._outcome(command, stream)
                except (httpx.TransportError, httpx.StreamError) as error:
                    failure = _translated(error)
        finally:
            stream.close()
            steps.close()

    def _outcome(self, command: Command, stream: "_Stream") -> Any:
        match command:
            case Send(request):
                return stream.send(request)
            case Open(request):
                return stream.open(request)
            case Read():
                return stream.read()
            case Close():
                stream.close()
            case Pause(seconds):
                self._clock.sleep(seconds)
            case Work(function):
                return function()
        return None


class _Stream:
    """The answer that an operation reads from."""

    def __init__(self, http: httpx.Client, clock: Clock, deadline: Deadline) -> None:
        self._http = http
        self._clock = clock
        self._deadline = deadline
        self._response: httpx.Response | None = None
        self._pieces: Iterator[bytes] = iter(())

    def send(self, request: Request) -> Answer:
        end = self._clock.now() + request.within
        with self._deadline.within(request.within):
            return self._whole(self._head(request), end)

    def open(self, request: Request) -> Answer:
        end = self._clock.now() + request.within
        with self._deadline.within(request.within):
            response = self._head(request)
            if response.status_code >= _REFUSED:
                return self._whole(response, end)
        self._response, self._pieces = response, response.iter_bytes()
        return _answer(response, b"")

    def read(self) -> bytes:
        return next(self._pieces, b"")

    def close(self) -> None:
        if self._response is not None:
            self._response.close()
        self._response, self._pieces = None, iter(())

    def _whole(self, response: httpx.Response, end: float) -> Answer:
        try:
            pieces = []
            for piece in response.iter_bytes():
                pieces.append(piece)
                # Checked here, because transports other than httpx's own keep no deadline.
                if self._clock.now() > end:
                    raise httpx.ReadTimeout("the answer took too long")
            return _answer(response, b"".join(pieces))
        finally:
            response.close()

    def _head(self, request: Request) -> httpx.Response:
        return self._http.send(_built(self._http, request), **_SENDING)


class AsyncDriver:
    """Driver that performs operations in asyncio tasks."""

    def __init__(self, http: httpx.AsyncClient, clock: Clock) -> None:
        self._http = http
        self._clock = clock

    async def run(self, steps: Steps[T]) -> T:
        """Performs an operation; returns its result."""
        results: list[T] = []
        async with contextlib.aclosing(self._perform(steps, results)) as performed:
            async for _ in performed:
                pass
        return results[0]

    async def iterate(self, steps: Steps[Any]) -> AsyncGenerator[Any, None]:
        """Performs an operation; yields the items that it emits."""
        async with contextlib.aclosing(self._perform(steps, [])) as performed:
            async for item in performed:
                yield item

    async def _perform(self, steps: Steps[T], results: list[T]) -> AsyncGenerator[Any, None]:
        stream = _AsyncStream(self._http)
        outcome: Any = None
        failure: TransportError | None = None
        try:
            while True:
                try:
                    command = steps.throw(failure) if failure else steps.send(outcome)
                except StopIteration as done:
                    results.append(done.value)
                    return
                outcome, failure = None, None
                if isinstance(command, Emit):
                    yield command.item
                    continue
                try:
                    outcome = await self._outcome(command, stream)
                except (httpx.TransportError, httpx.StreamError) as error:
                    failure = _translated(error)
        finally:
            await stream.close()
            steps.close()

    async def _outcome(self, command: Command, stream: "_AsyncStream") -> Any:
        match command:
            case Send(request):
                return await stream.send(request)
            case Open(request):
                return await stream.open(request)
            case Read():
                return await stream.read()
            case Close():
                await stream.close()
            case Pause(seconds):
                await self._clock.sleep_async(seconds)
            case Work(function):
                return await asyncio.to_thread(function)
        return None


class _AsyncStream:
    """The answer that an operation reads from."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http
        self._response: httpx.Response | None = None
        self._pieces: AsyncIterator[bytes] | None = None

    async def send(self, request: Request) -> Answer:
        return await _within(request, self._sent(request))

    async def open(self, request: Request) -> Answer:
        return await _within(request, self._opened(request))

    async def read(self) -> bytes:
        return await anext(self._pieces, b"") if self._pieces is not None else b""

    async def close(self) -> None:
        if self._response is not None:
            await self._response.aclose()
        self._response, self._pieces = None, None

    async def _sent(self, request: Request) -> Answer:
        return await self._whole(await self._head(request))

    async def _opened(self, request: Request) -> Answer:
        response = await self._head(request)
        if response.status_code >= _REFUSED:
            return await self._whole(response)
        self._response, self._pieces = response, response.aiter_bytes()
        return _answer(response, b"")

    async def _whole(self, response: httpx.Response) -> Answer:
        try:
            return _answer(response, b"".join([piece async for piece in response.aiter_bytes()]))
        finally:
            await response.aclose()

    async def _head(self, request: Request) -> httpx.Response:
        return await self._http.send(_built(self._http, request), **_SENDING)


async def _within(request: Request, sending: Coroutine[Any, Any, Answer]) -> Answer:
    try:
        return await asyncio.wait_for(sending, request.within)
    except asyncio.TimeoutError:  # another class before Python 3.11
        raise httpx.ReadTimeout("the answer took too long") from None


def _built(http: httpx.Client | httpx.AsyncClient, request: Request) -> httpx.Request:
    return http.build_request(
        request.method,
        request.url,
        headers=dict(request.headers),
        content=request.content,
        timeout=httpx.Timeout(max(0.001, request.within), read=max(0.001, request.idle)),
    )


def _answer(response: httpx.Response, content: bytes) -> Answer:
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Answer(response.status_code, headers, content)


def _translated(error: Exception) -> TransportError:
    """Returns the failure without the address, whose query may hold private values."""
    text = str(error) or type(error).__name__
    return TransportError(f"{type(error).__name__}: {text}", sent=not isinstance(error, _NEVER_SENT))
