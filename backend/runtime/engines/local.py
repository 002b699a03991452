"""The embedded engine: segments are tasks on an event loop in a thread of its own."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import uvloop

from backend.runtime.execution.segment_context import SegmentContext

if TYPE_CHECKING:
    from backend.runtime.execution.claim import ClaimedSegment
    from backend.runtime.execution.segment import Segment

_RESERVED_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class _Entry:
    """A submitted segment that has not ended, with the futures that wait for its end."""

    segment: "Segment"
    waiters: "list[Future[None]]" = field(default_factory=list)


class LocalEngine:
    """Executes segments in this process; `on_free` is called after the end of each.

    A lock guards the segments, the reserved segments, and whether more are accepted. Tasks belong to the loop's thread
    alone. A segment is reserved while the start of its run is being committed.
    """

    def __init__(self, context: SegmentContext, on_free: Callable[[], None]) -> None:
        self.owner: Final = context.owner
        """The owner id of the segments that this engine executes."""
        self._context = context
        self._on_free = on_free
        self._loop = uvloop.new_event_loop()
        self._lock = threading.Lock()
        self._segments: dict[str, _Entry] = {}
        self._reserved: set[str] = set()
        self._settled = threading.Condition(self._lock)
        self._closing = False
        self._closed = False
        self._aborted = asyncio.Event()
        # References to the tasks, because the loop itself holds none.
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="segments", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self, grace_seconds: float) -> None:
        """Accepts no more segments, gives the present ones a grace to end, then ends them as orphaned."""
        with self._lock:
            self._closing = True
            # Reserved segments, whose commit is under way, count as begun.
            self._settled.wait_for(lambda: not self._reserved, _RESERVED_SECONDS)
            self._closed = True
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self._drain(grace_seconds), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        # Without the thread, as after a failed start, nothing would run on the loop.
        with self._lock:
            self._loop.close()

    def abort(self) -> None:
        """Accepts no more segments and ends the present ones, also during the grace of a `stop`.

        Does not wait. Thread-safe and idempotent, also after a stop.
        """
        with self._lock:
            self._closing = self._closed = True
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._abort)

    def submit(self, segment_id: str, dispatch: int) -> None:  # noqa: ARG002 - one that it has begins soon
        """Executes a queued segment soon; see `Engine.submit`.

        Raises:
            RuntimeError: the engine was stopped.
        """
        with self._lock:
            self._entry(segment_id)

    def execute(self, segment_id: str) -> Future[None]:
        """Submits a segment; returns a future that is done once the segment has ended. Raises as `submit`."""
        ended: Future[None] = Future()
        with self._lock:
            self._entry(segment_id).waiters.append(ended)
        return ended

    def reserve(self, segment_id: str) -> bool:
        """Reserves execution of a segment that begins with a commit under way; returns False if the engine is closed.

        `confirm` or `release` must follow; a stop waits for it.
        """
        with self._lock:
            if not self._closing:
                self._reserved.add(segment_id)
            return not self._closing

    def confirm(self, segment_id: str, claimed: "ClaimedSegment") -> None:
        """Executes a reserved segment, whose begin is durable; if the engine has ended, recovery ends its run."""
        with self._lock:
            if self._closed:
                self._forget(segment_id)
            else:
                self._loop.call_soon_threadsafe(self._begin_reserved, segment_id, claimed)

    def release(self, segment_id: str) -> None:
        """Gives up a reserved segment, whose begin was not committed."""
        with self._lock:
            self._forget(segment_id)

    def call_soon(self, action: Callable[[], None]) -> None:
        """Calls an action on the loop, unless the loop has ended. Thread-safe."""
        with self._lock:
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(action)

    def cancel(self, segment_id: str) -> None:
        """Ends a segment; see `Engine.cancel`."""
        with self._lock:
            entry = self._segments.get(segment_id)
            # The loop is open as long as there is a segment.
            if entry is not None:
                self._loop.call_soon_threadsafe(entry.segment.stop)

    def abandon(self, segment_id: str) -> None:
        """Ends a segment whose lease this process has lost; see `Engine.abandon`."""
        with self._lock:
            entry = self._segments.get(segment_id)
            if entry is not None:
                self._loop.call_soon_threadsafe(entry.segment.abort)

    def executes(self, segment_id: str) -> bool:
        """Returns whether this engine executes the segment; see `Engine.executes`."""
        with self._lock:
            return segment_id in self._segments or segment_id in self._reserved

    @property
    def running(self) -> int:
        """Number of segments that this engine executes. Thread-safe."""
        with self._lock:
            return len(self._segments) + len(self._reserved)

    def claimed(self) -> set[str]:
        """Returns the segments that this engine executes and has set running; see `Engine.claimed`."""
        with self._lock:
            return {segment_id for segment_id, entry in self._segments.items() if entry.segment.claimed}

    def _entry(self, segment_id: str) -> _Entry:
        """Returns the segment's entry, a new one if there is none; the caller holds the lock."""
        if self._closed:
            raise RuntimeError("the engine was stopped")
        entry = self._segments.get(segment_id)
        if entry is None:
            # Imported here, because a start does not need the code that executes segments.
            from backend.runtime.execution.segment import Segment

            entry = self._segments[segment_id] = _Entry(Segment(self._context, segment_id))
            self._loop.call_soon_threadsafe(self._begin, segment_id, entry.segment)
        return entry

    def _begin_reserved(self, segment_id: str, claimed: "ClaimedSegment") -> None:
        from backend.runtime.execution.segment import Segment

        segment = Segment(self._context, segment_id, claimed)
        with self._lock:
            self._segments[segment_id] = _Entry(segment)
            self._begin(segment_id, segment)
            self._forget(segment_id)

    def _forget(self, segment_id: str) -> None:
        self._reserved.discard(segment_id)
        self._settled.notify_all()

    def _begin(self, segment_id: str, segment: "Segment") -> None:
        task = self._loop.create_task(segment.run(), name=segment_id)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        with self._lock:
            entry = self._segments.pop(task.get_name())
        for waiter in entry.waiters:
            waiter.set_result(None)
        self._on_free()

    def _abort(self) -> None:
        with self._lock:
            entries = list(self._segments.values())
        for entry in entries:
            entry.segment.abort()
        self._aborted.set()

    async def _drain(self, grace_seconds: float) -> None:
        """Waits for the segments to end; called once the engine is closed, when every segment has its task."""
        if self._tasks:
            aborted = asyncio.create_task(self._aborted.wait())
            ended = asyncio.ensure_future(asyncio.wait(self._tasks.copy()))
            await asyncio.wait({aborted, ended}, timeout=grace_seconds, return_when=asyncio.FIRST_COMPLETED)
            self._abort()
            await ended
            await aborted
