"""People who plan starts, cancel them, and trigger schedules."""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from tests.faults.calls import Calls
from tests.faults.load_record import choose
from tests.faults.plan import Operation

RECURS: Final = "Recurs"
"""The workflow with schedules."""
SCHEDULES: Final = ("beside", "alone", "queued")
"""The names of its schedules."""
PLANNED: Final = "Planned"
"""The workflow whose starts are planned."""
_SOONEST_SECONDS: Final = 1.0
_SPREAD_SECONDS: Final = 5.0
_CANCELLED_OF_NEWEST: Final = 4
_TRIES: Final = 3
_TRY_AGAIN_SECONDS: Final = 0.7
_ASKED_ONCE_MORE: Final = 0.3


class SchedulePeople:
    """Their operations, by kind."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._lock = threading.Lock()
        self._planned: list[str] = []
        self.operations: Mapping[str, Callable[[Operation], bool]] = {
            "plan_start": self._plan,
            "cancel_planned": self._cancel,
            "trigger_schedule": self._trigger,
        }

    def _plan(self, operation: Operation) -> bool:
        at = time.time() + _SOONEST_SECONDS + _SPREAD_SECONDS * operation.chances[0]
        planned = self._calls.plan(PLANNED, f"operation-{operation.number}", at, _backend(operation))
        if planned is None:
            return False
        with self._lock:
            self._planned.append(planned)
        return True

    def _cancel(self, operation: Operation) -> bool:
        with self._lock:
            schedule_id = choose(self._planned, operation.chances[0], newest=_CANCELLED_OF_NEWEST)
        return schedule_id is not None and self._calls.cancel_planned(schedule_id, _backend(operation))

    def _trigger(self, operation: Operation) -> bool:
        """Triggers a schedule; who hears nothing asks again with the same key."""
        schedule = choose(list(SCHEDULES), operation.chances[0])
        assert schedule is not None
        name, backend = f"operation-{operation.number}", _backend(operation)
        for number in range(_TRIES):
            if self._calls.trigger(RECURS, schedule, name, (backend + number) % 2):
                if operation.chances[3] < _ASKED_ONCE_MORE:
                    self._calls.trigger(RECURS, schedule, name, (backend + number + 1) % 2)
                return True
            time.sleep(_TRY_AGAIN_SECONDS)
        return False


def _backend(operation: Operation) -> int:
    return int(operation.chances[5] * 2)
