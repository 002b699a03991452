"""Progress events of an agent: pausing the step's clock while they are recorded, limits, and dropped events."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final

from backend.common import json_text
from backend.isolation.sandbox.frames import HostileFrameError
from backend.isolation.sandbox.inside.channel import EventBudget
from backend.runtime.agents.base import EventData, OnProgress
from backend.settings import StepDataLimits

MAX_DROPPED_REPORT_BYTES: Final = 256
MAX_DROPPED_REPORTS: Final = 100
"""Most reports of dropped events from one attempt: the runner reports each time the number has doubled."""


class ClockPauses:
    """Pauses of a time-out, which may overlap: it goes on when the last one has ended.

    A time-out that has passed stays so: what its cancellation ends may still record events.
    """

    def __init__(self, clock: asyncio.Timeout) -> None:
        self._clock = clock
        self._held = 0
        self._left = 0.0

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Stops the clock until the block has ended."""
        if self._clock.expired():
            yield
            return
        loop = asyncio.get_running_loop()
        if not self._held:
            end = self._clock.when()
            assert end is not None
            self._left = end - loop.time()
            self._clock.reschedule(None)
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1
            if not self._held:
                self._clock.reschedule(loop.time() + self._left)


def pause_clock(
    on_progress: OnProgress, clock: asyncio.Timeout | ClockPauses
) -> Callable[[str, EventData], Awaitable[None]]:
    """Wraps `on_progress` so that its time does not count towards the step's time-out.

    Recording an event may wait long for sweeps of other runs.
    """
    pauses = clock if isinstance(clock, ClockPauses) else ClockPauses(clock)

    async def report(message: str, data: EventData) -> None:
        with pauses.pause():
            awaitable = on_progress(message, data)
            if awaitable is not None:
                await awaitable

    return report


def limit_progress(budget: EventBudget, on_progress: OnProgress) -> OnProgress:
    """Wraps `on_progress` of an agent in this process so that events beyond its attempt's budget are dropped."""

    def report(message: str, data: EventData) -> Awaitable[None] | None:
        size = len(json_text.write(data | {"message": message}).encode(errors="surrogatepass"))
        return on_progress(message, data) if budget.admit(size) else None

    return report


def record_dropped(budget: EventBudget, payload: bytes) -> None:
    """Records the number of events that the runner has dropped so far.

    Raises:
        HostileFrameError: the runner never sends such a payload.
    """
    try:
        counts = json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise HostileFrameError(f"a number of dropped events is not JSON: {error}") from error
    if not isinstance(counts, dict) or counts.keys() != {"final", *budget.dropped}:
        raise HostileFrameError(
            f"dropped events are counted under exactly these names: final, {', '.join(budget.dropped)}"
        )
    budget.counted_to_the_end = counts.pop("final") is True
    for limit, count in counts.items():
        if type(count) is not int or not budget.dropped[limit] <= count < 2**53:
            raise HostileFrameError("the number of dropped events only grows")
    budget.dropped.update(counts)


def dropped_warning(budget: EventBudget, limits: StepDataLimits) -> EventData | None:
    """Returns the data of the `warning` event about an attempt's dropped events; None if none was dropped."""
    if not budget.dropped_events:
        return None
    reasons = {
        "event_bytes": f"with more than {limits.event_bytes} bytes of data",
        "events": f"after the first {limits.events}",
        "event_data_bytes": f"after {limits.event_data_bytes} bytes of data",
    }
    parts = [f"{count} {reasons[limit]}" for limit, count in budget.dropped.items() if count]
    least = "" if budget.counted_to_the_end else "at least "
    message = f"Progress events of this attempt were dropped: {least}{', '.join(parts)}."
    return {"message": message, "dropped": budget.dropped_events, "exact": budget.counted_to_the_end}
