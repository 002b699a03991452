"""The embedded engine: segments as tasks on an event loop of its own, in one long-lived thread. (DESIGN.md, 6)."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future

import uvloop

from backend.runtime.means import Means
from backend.runtime.segment import Segment


class LocalEngine:
    """Executes segments in this process; `on_free` is called whenever one has ended."""

    def __init__(self, means: Means, on_free: Callable[[], None]) -> None:
        self._means = means
        self._on_free = on_free
        self._loop = uvloop.new_event_loop()
        self._segments: dict[str, Segment] = {}
        self._waiting: dict[str, list[Future[None]]] = {}
        # Held here: the loop itself forgets tasks that nobody holds.
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="segments", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self, grace_seconds: float) -> None:
        """Gives running segments so long to end by themselves, then ends them as orphaned."""
        if not self._thread.is_alive():
            # A start that failed before it came to this; nothing would ever run on the loop.
            self._loop.close()
            return
        asyncio.run_coroutine_threadsafe(self._drain(grace_seconds), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def submit(self, segment_id: str) -> None:
        """Has a queued segment executed; see `Engine.submit`."""
        if segment_id not in self._segments:
            segment = self._segments[segment_id] = Segment(self._means, segment_id)
            self._loop.call_soon_threadsafe(self._begin, segment_id, segment)

    def execute(self, segment_id: str) -> Future[None]:
        """As `submit`; what it gives is done once the segment has ended."""
        ended: Future[None] = Future()
        self._waiting.setdefault(segment_id, []).append(ended)
        self.submit(segment_id)
        return ended

    def cancel(self, segment_id: str) -> None:
        """Has a segment end; see `Engine.cancel`."""
        segment = self._segments.get(segment_id)
        if segment is not None:
            self._loop.call_soon_threadsafe(segment.stop)

    def executes(self, segment_id: str) -> bool:
        """Whether the segment goes on here; see `Engine.executes`."""
        return segment_id in self._segments

    @property
    def running(self) -> int:
        """How many segments go on here; from any thread."""
        return len(self._segments)

    def _begin(self, segment_id: str, segment: Segment) -> None:
        task = self._loop.create_task(segment.run(), name=segment_id)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        del self._segments[task.get_name()]
        for ended in self._waiting.pop(task.get_name(), ()):
            ended.set_result(None)
        self._on_free()

    async def _drain(self, grace_seconds: float) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace_seconds)
        for segment in self._segments.values():
            segment.stop()
        if self._tasks:
            await asyncio.wait(self._tasks)
