"""Channel to services in the same process, by direct calls."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from typing import Any, Final, Protocol

from google.protobuf.message import Message

from contract.channel import LONGEST_STREAM_SECONDS, Messages, Metadata
from contract.local_context import CachedAnswer, LocalContext
from contract.refusals import Refusal

_LOG = logging.getLogger(__name__)
_END: Final = object()
# Longest pause of a stream, after which it checks by itself whether it must read or end.
_CHECK_SECONDS: Final = 10.0


class PendingCall(Protocol):
    """A call that waits for a commit, as the backend makes it."""

    def add_done_callback(self, action: Callable[[], None]) -> None:
        """Calls the action once the answer is there, from any thread; at once if the call is done already."""

    def answer(self) -> Message:
        """Returns the answer."""


class Handler(Protocol):
    """One RPC, wrapped by the backend."""

    @property
    def call(self) -> Callable[[Any, Any], Any]:
        """Returns the function of the RPC, which takes a request and a grpc.ServicerContext.

        The function returns a message or a `PendingCall`; for a stream, an iterator of messages and pauses.
        """
        ...

    @property
    def page_read(self) -> bool:
        """Returns whether the RPC reads only pages of rows, so that few threads must make its calls."""
        ...

    @property
    def runs_inline(self) -> Callable[[Any], bool] | None:
        """Returns the test whether a request may be called on the event loop; None if none may."""
        ...

    @property
    def cached_answer(self) -> Callable[[Any, Metadata], CachedAnswer | None] | None:
        """Returns the lookup in the answer cache; None for an RPC whose answers are never cached."""
        ...


class Pause(Protocol):
    """A wait of a stream for a change."""

    def add_done_callback(self, action: Callable[[], None]) -> None:
        """Calls the action once the change is there, from any thread."""
        ...

    def wake(self) -> None:
        """Lets the stream go on without the change."""
        ...


class InProcessChannel:
    """A `Channel` that calls handlers directly: point reads on the event loop, most other calls on threads.

    An answer from the answer cache needs no handler. A quick change that can wait for its commit without a thread
    begins on the event loop, too.

    Pages are read by few threads: more threads only wait for the interpreter's lock, and for one another.

    A stream is pulled message by message, so that a slow reader holds neither a thread nor a queue of messages, and a
    paused stream holds no thread. Few threads pull streams, one of them for the keys and one for the changes of runs:
    with 16 threads the event loop waited 25 times as long for its turn while 50 zips were made.
    """

    def __init__(
        self, handlers: Mapping[str, Handler], *, threads: int = 16, read_threads: int = 2, stream_threads: int = 5
    ) -> None:
        self._handlers = handlers
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="channel-call")
        self._read_threads = ThreadPoolExecutor(read_threads, thread_name_prefix="channel-read")
        self._closed = False
        self._stream_threads = ThreadPoolExecutor(stream_threads, thread_name_prefix="channel-stream")
        self._streams: set[LocalContext] = set()

    async def unary(self, rpc: str, request: Message, metadata: Metadata, seconds: float) -> Message:
        """Returns the answer of a unary RPC; see `Channel`."""
        return (await self.answer(rpc, request, metadata, seconds)).message

    async def answer(self, rpc: str, request: Message, metadata: Metadata, seconds: float) -> CachedAnswer:
        """Returns the answer of a unary RPC, a cached answer without a call; see `Channel`."""
        handler = self._handlers[rpc]
        if handler.cached_answer is not None:
            cached = handler.cached_answer(request, metadata)
            if cached is not None:
                return cached
        context = LocalContext(metadata, seconds)
        try:
            if handler.runs_inline is not None and handler.runs_inline(request):
                called = handler.call(request, context)
                if isinstance(called, Message):
                    answer = called
                else:
                    async with asyncio.timeout(seconds):
                        answer = await _committed(called)
            else:
                threads = self._read_threads if handler.page_read else self._threads
                async with asyncio.timeout(seconds):
                    called = await asyncio.get_running_loop().run_in_executor(threads, handler.call, request, context)
                    answer = called if isinstance(called, Message) else await _committed(called)
        except TimeoutError:
            context.cancel()
            raise Refusal("runtime_unreachable") from None
        except asyncio.CancelledError:
            context.cancel()
            if self._closed and not _is_cancelled():
                # A call that waited for a thread never begins.
                raise Refusal("runtime_unreachable") from None
            raise
        except Exception as error:
            if self._closed:
                raise Refusal("runtime_unreachable") from None
            # The wrapper raises nothing, so that an error here is no answer of a service.
            _LOG.exception("%s raised an unexpected error", rpc)
            raise Refusal("runtime_error") from error
        refusal = context.refusal()
        if refusal is not None:
            raise refusal
        return context.cached or CachedAnswer(answer)

    async def stream(self, rpc: str, request: Message, metadata: Metadata, seconds: float) -> Messages:
        """Yields the messages of a server-streaming RPC; see `Channel`."""
        context = LocalContext(metadata, LONGEST_STREAM_SECONDS)
        loop = asyncio.get_running_loop()
        handler = self._handlers[rpc]
        messages: Iterator[Message | Pause] = handler.call(request, context)
        # One context for all steps of the generator, whichever thread takes them.
        step: Callable[..., Any] = copy_context().run
        taken: asyncio.Future[Any] | None = None
        self._streams.add(context)
        try:
            until = loop.time() + seconds
            while True:
                taken = loop.run_in_executor(self._stream_threads, step, next, messages, _END)
                async with asyncio.timeout_at(min(until, loop.time() + context.time_remaining())):
                    message = await asyncio.shield(taken)
                    if message is _END:
                        break
                    if not isinstance(message, Message):
                        await _waited(message)
                        continue
                yield message
                until = loop.time() + seconds
        except TimeoutError:
            raise Refusal("runtime_unreachable") from None
        except Exception as error:
            _LOG.exception("%s raised an unexpected error", rpc)
            raise Refusal("runtime_error") from error
        finally:
            self._streams.discard(context)
            context.cancel()
            if taken is not None:
                # A generator cannot be closed while a step of it runs.
                taken.add_done_callback(lambda _: self._close_iterator(step, messages))
        refusal = context.refusal()
        if refusal is not None:
            raise refusal

    def _close_iterator(self, step: Callable[..., None], messages: Any) -> None:
        # Once the threads have ended, the interpreter closes the generator.
        with suppress(RuntimeError):
            self._stream_threads.submit(step, messages.close)

    async def close(self) -> None:
        """Ends every stream and shuts the threads down."""
        for context in tuple(self._streams):
            context.cancel()
        self._closed = True
        for threads in (self._threads, self._read_threads):
            threads.shutdown(wait=False, cancel_futures=True)
        self._stream_threads.shutdown(wait=False)


async def _committed(call: PendingCall) -> Message:
    """Waits for a call's commit without a thread; returns the answer."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Message] = loop.create_future()

    def take() -> None:
        # Read even if the caller no longer waits, because the outcome is logged and counted here.
        message = call.answer()
        if not answer.done():
            answer.set_result(message)

    def wake() -> None:
        loop.call_soon_threadsafe(take)

    call.add_done_callback(wake)
    return await answer


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _waited(pause: Pause) -> None:
    """Waits for a pause without a thread."""
    loop = asyncio.get_running_loop()
    over = asyncio.Event()

    def end() -> None:
        loop.call_soon_threadsafe(over.set)

    pause.add_done_callback(end)
    try:
        await asyncio.wait_for(over.wait(), _CHECK_SECONDS)
    except TimeoutError:
        return
    finally:
        # A later callback finds the loop closed.
        pause.wake()
