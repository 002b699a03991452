"""A segment that does nothing, in the place of `backend.runtime.execution.segment.Segment`."""

import asyncio
from collections.abc import Collection


class FakeSegment:
    """Ends once it is stopped, and without that where its id begins with `short`.

    `begun` and `ended` hold the ids of those that have, in order; `reset` forgets them.
    """

    begun: list[str] = []  # noqa: RUF012 - of the class
    ended: list[str] = []  # noqa: RUF012 - of the class

    def __init__(self, _: object, segment_id: str, _claimed: object = None) -> None:
        self._id = segment_id
        self._stop = asyncio.Event()

    def abort(self) -> None:
        self.stop()

    @property
    def claimed(self) -> bool:
        return self._id in self.begun

    @classmethod
    def reset(cls) -> None:
        cls.begun, cls.ended = [], []

    @classmethod
    def going(cls) -> Collection[str]:
        """The ids of those that have begun and not ended."""
        return set(cls.begun) - set(cls.ended)

    def stop(self) -> None:
        self._stop.set()

    async def run(self) -> None:
        self.begun.append(self._id)
        if self._id.startswith("short"):
            for _ in range(len(self._id) % 4):
                await asyncio.sleep(0)
        else:
            await self._stop.wait()
        self.ended.append(self._id)
