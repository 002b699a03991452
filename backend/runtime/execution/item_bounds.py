"""Limits of a step that the items of its fan-out share: events, files, directories, and log size."""

import os
import shutil
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from backend.common import json_text
from backend.common.json_text import JsonValue
from backend.isolation.sandbox.inside.channel import OVER_DIRECTORIES, OVER_FILES, EventBudget
from backend.runtime.agents.base import EventData, event_budget
from backend.runtime.agents.progress import dropped_warning
from backend.settings import OutputLimits, StepDataLimits


class ItemBounds:
    """Limits on events, files and logs, shared by the `total` items of one fan-out.

    `of_one` are the limits of one attempt of one item: its value is one level deeper in the list, and the printed text
    of a step is divided among its items.
    """

    def __init__(self, step_data: StepDataLimits, outputs: OutputLimits, total: int) -> None:
        self.of_one = replace(
            step_data, json_levels=step_data.json_levels - 1, log_bytes=step_data.log_bytes // max(1, total)
        )
        self._step_data = step_data
        self._events = event_budget(step_data)
        self._left = Counter({OVER_FILES: outputs.files, OVER_DIRECTORIES: outputs.directories})
        self._lock = threading.Lock()

    def admits(self, data: EventData) -> bool:
        """Counts a progress event, and returns whether it is within the bounds of the step; on the loop."""
        return self._events.admit(len(json_text.write(data).encode(errors="surrogatepass")))

    def count_dropped(self, of_attempt: EventBudget) -> None:
        """Adds the events that one attempt of an item has dropped under its own limit; on the loop."""
        for limit, count in of_attempt.dropped.items():
            self._events.dropped[limit] += count
        self._events.counted_to_the_end &= of_attempt.counted_to_the_end

    def dropped_warning(self) -> EventData | None:
        """Returns the data of the `warning` about the dropped events of all items; None where none was dropped."""
        return dropped_warning(self._events, self._step_data)

    def trim(self, folder: Path, shared: set[str]) -> Mapping[str, int]:
        """Removes an item's entries beyond the step's limits, in the order of paths; returns their counts by kind.

        Also takes the paths of removed files out of `shared`. From any thread.
        """
        over: Counter[str] = Counter()
        for place, directories, files in os.walk(folder):
            directories.sort()
            for name in self._beyond(OVER_DIRECTORIES, directories):
                directories.remove(name)
                over[OVER_DIRECTORIES] += 1
                shutil.rmtree(Path(place) / name)
            for name in self._beyond(OVER_FILES, sorted(files)):
                over[OVER_FILES] += 1
                (Path(place) / name).unlink()
        shared.difference_update([path for path in shared if not (folder / path).exists()])
        return over

    def _beyond(self, kind: str, names: list[str]) -> list[str]:
        with self._lock:
            kept = min(self._left[kind], len(names))
            self._left[kind] -= kept
        return names[kept:]


@dataclass(frozen=True, slots=True)
class StepItem:
    """An item of a fan-out: its place in the list, from 0, and its value, a large one as `JsonText`."""

    index: int
    value: JsonValue
    bounds: ItemBounds
