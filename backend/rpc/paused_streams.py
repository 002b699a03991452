"""Streams that wait without a thread: a stream takes a thread of a small pool only while it has messages to send."""

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from time import monotonic
from typing import Any, Final

import grpc
from google.protobuf.message import Message

from backend.common.waits import Pause

Send = Callable[[Message | None], None]

# Threads are started as needed. A reader that does not read keeps a thread until it is dropped.
_THREADS: Final = 64
# Interval at which each stream looks by itself whether it must read, or end.
_CHECK_SECONDS: Final = 10.0
_SLOWEST_SECONDS: Final = 10.0

_LOG = logging.getLogger(__name__)


class PausedStreams:
    """The open streams of one server that pause. A reader that takes nothing for ten seconds is dropped."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="grpc-watch")
        self._lock = threading.Lock()
        self._streams: set[_PausedStream] = set()
        self._stopped = threading.Event()
        self._ticker: threading.Thread | None = None

    def behaviour(self, steps: Callable[[Any, grpc.ServicerContext], Iterator[Message | Pause]]) -> Callable[..., None]:
        """Returns a behaviour that grpc calls once per stream, and that sends by itself from then on."""

        def begin(request: Message, context: grpc.ServicerContext, send: Send) -> None:
            stream = _PausedStream(self, steps(request, context), context, send)
            with self._lock:
                self._streams.add(stream)
                if self._ticker is None:
                    self._ticker = threading.Thread(target=self._tick, name="grpc-watch-tick", daemon=True)
                    self._ticker.start()
            # A pause does not end when the caller goes, so the stream is woken.
            context.add_callback(stream.wake)
            stream.step()

        # grpc looks for both attributes on the behaviour itself.
        begin.experimental_non_blocking = True  # type: ignore[attr-defined]
        begin.experimental_thread_pool = self._pool  # type: ignore[attr-defined]
        return begin

    def submit(self, step: Callable[[], None]) -> None:
        """Queues the next step of a stream."""
        # A pool that was shut down takes no steps, and the server takes no calls then.
        with suppress(RuntimeError):
            self._pool.submit(step)

    def forget(self, stream: "_PausedStream") -> None:
        """Removes a stream that has ended."""
        with self._lock:
            self._streams.discard(stream)

    def stop(self) -> None:
        """Ends the threads."""
        self._stopped.set()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _tick(self) -> None:
        while not self._stopped.wait(_CHECK_SECONDS):
            with self._lock:
                streams = tuple(self._streams)
            for stream in streams:
                stream.check(monotonic())


class _PausedStream:
    """One open stream; its steps run one after the other, on any thread of the pool."""

    def __init__(
        self, owner: PausedStreams, items: Iterator[Message | Pause], context: grpc.ServicerContext, send: Send
    ) -> None:
        self._owner = owner
        self._items = items
        self._context = context
        self._send = send
        self._pause: Pause | None = None
        self._sending_since = float("inf")

    def step(self) -> None:
        """Sends the messages up to the next pause or the end."""
        try:
            for item in self._items:
                if isinstance(item, Pause):
                    self._pause = item
                    item.add_done_callback(lambda: self._owner.submit(self.step))
                    return
                self._sending_since = monotonic()
                self._send(item)
                self._sending_since = float("inf")
            self._send(None)
        except Exception:  # noqa: BLE001 - the wrapper answers errors; here only the connection can fail
            _LOG.exception("A stream could not be sent")
            self._context.cancel()
        self._owner.forget(self)

    def wake(self) -> None:
        """Lets the stream see that its caller has gone."""
        pause = self._pause
        if pause is not None:
            pause.wake()

    def check(self, now: float) -> None:
        """Drops a reader that does not read; wakes the stream otherwise."""
        if now - self._sending_since > _SLOWEST_SECONDS:
            self._context.cancel()
        else:
            self.wake()
