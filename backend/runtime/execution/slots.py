"""Slots of steps, the memory that they share, and the limits that an environment sets for a step (contract 22.6)."""

import asyncio
import threading
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from backend.isolation.sandbox import Limits
from backend.services.workflows.manifests.names import DEFAULT_ENVIRONMENT
from backend.services.workflows.resolved_workflow import ResolvedStep
from backend.services.workflows.rules import Definition
from backend.settings import OutputLimits

LEAST_TO_RESERVE: Final = 3
"""Fewer are not divided: a key alone would lose half of its throughput, or all of it."""
# A segment holds no slot while it records what a step left, so more segments than slots keep the slots busy.
SEGMENTS_PER_SLOT: Final = 2

LARGEST_STEP_MB: Final = 3_008
"""The most that an execution environment gives. (contract 22.6)"""


class _Request(NamedTuple):
    key: str
    memory_mb: int
    slot: "asyncio.Future[None]"


class StepSlots:
    """A fixed number of slots, and the megabytes that their holders may use together.

    A free slot goes to the key that holds the fewest, among equals to the one that waits longest. The request at the
    front stays there until there is memory enough for it: a small request never overtakes a large one.

    A key that holds a slot leaves one free, with a slot's share of the memory, for keys that hold none, where there is
    room for `LEAST_TO_RESERVE` steps like the one it asks for. A request that only this reservation holds back can be
    overtaken by those keys. Without `reserve` nothing is: the hand-over of segments leaves room then.

    Used on the engine's loop only, but for `take_now`.
    """

    def __init__(self, count: int, memory_mb: int, *, reserve: bool = True) -> None:
        self.count = count
        self._reserve = reserve
        self.memory_mb = memory_mb
        self._free = count
        self._free_mb = memory_mb
        self._held: Counter[str] = Counter()
        self._waiting: dict[str, deque[_Request]] = {}
        self._front: _Request | None = None
        self._lock = threading.Lock()

    @property
    def in_use(self) -> int:
        """Number of slots in use; from any thread."""
        return self.count - self._free

    def request(self, key: str, memory_mb: int) -> asyncio.Future[None]:
        """Returns a future that is done once the caller holds a slot, who releases it then, or else cancels the future.

        `memory_mb` is at most the memory of all slots.
        """
        slot: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Others may wait behind a request that is cancelled.
        slot.add_done_callback(lambda _: self._grant())
        with self._lock:
            self._waiting.setdefault(key, deque()).append(_Request(key, memory_mb, slot))
        self._grant()
        return slot

    def take_now(self, key: str, memory_mb: int) -> bool:
        """Takes a slot where one is free and nobody waits, to be released on the loop; from any thread."""
        with self._lock:
            if self._waits() or not self._free or memory_mb > self._free_mb or not self._leaves_room(key, memory_mb):
                return False
            self._hold(key, memory_mb)
            return True

    def release(self, key: str, memory_mb: int) -> None:
        """Releases a slot with the memory that was requested."""
        with self._lock:
            self._held[key] -= 1
            if not self._held[key]:
                del self._held[key]
            self._free += 1
            self._free_mb += memory_mb
        self._grant()

    def _grant(self) -> None:
        with self._lock:
            while (request := self._next()) is not None:
                request.slot.set_result(None)
                self._hold(request.key, request.memory_mb)

    def _hold(self, key: str, memory_mb: int) -> None:
        self._held[key] += 1
        self._free -= 1
        self._free_mb -= memory_mb

    def _next(self) -> _Request | None:
        """Removes and returns the request that is granted now, if any."""
        if not self._free or not self._waits():
            return None
        if self._front is None:
            key = self._in_turn()
            first = self._waiting[key][0]
            if first.memory_mb <= self._free_mb and not self._leaves_room(key, first.memory_mb):
                # No key waits that holds none.
                return None
            self._front = self._pop(key)
        front = self._front
        if front.memory_mb > self._free_mb:
            return None
        if self._leaves_room(front.key, front.memory_mb):
            self._front = None
            return front
        key = self._in_turn() if self._waiting else front.key
        fits = not self._held[key] and self._waiting[key][0].memory_mb <= self._free_mb
        return self._pop(key) if fits else None

    def _waits(self) -> bool:
        """Returns whether anybody waits; forgets requests that were cancelled."""
        if self._front is not None and self._front.slot.done():
            self._front = None
        while self._waiting and self._waiting[key := self._in_turn()][0].slot.done():
            self._pop(key)
        return self._front is not None or bool(self._waiting)

    def _in_turn(self) -> str:
        return min(self._waiting, key=self._held.__getitem__)

    def _pop(self, key: str) -> _Request:
        waiting = self._waiting.pop(key)
        request = waiting.popleft()
        if waiting:
            # Behind the other keys that hold as many.
            self._waiting[key] = waiting
        return request

    def _leaves_room(self, key: str, memory_mb: int) -> bool:
        """Returns whether a key may take a slot that fits, without what is reserved for keys that hold none."""
        if not self._reserve:
            return True
        if not self._held[key] or min(self.count, self.memory_mb // max(1, memory_mb)) < LEAST_TO_RESERVE:
            return True
        return self._free > 1 and self._free_mb - memory_mb >= self.memory_mb // self.count


def limits_of(environment: Definition, outputs: OutputLimits, timeout_seconds: int | None = None) -> Limits:
    """Returns the limits of a step in this environment, its output files included; its own time may be shorter."""
    seconds = environment["timeout_seconds"]
    return Limits(
        environment["memory_mb"],
        seconds if timeout_seconds is None else min(timeout_seconds, seconds),
        environment["workspace_mb"],
        # An environment that was applied before there was the field has no network.
        environment.get("network", "none"),
        outputs,
    )


def memory_of(step: ResolvedStep) -> int:
    """Returns the megabytes that a step holds while it runs; a model's work needs none but for agents as tools."""
    if step.agent is None or (step.agent["type"] != "python" and not step.tools):
        return 0
    return int(step.environment["memory_mb"])


DEFAULT_LIMITS: Final = limits_of(DEFAULT_ENVIRONMENT, OutputLimits())


def default_memory_mb(root: Path = Path("/")) -> int:
    """Returns three quarters of what the process may use; the rest is for itself and for files of steps in memory.

    At least what the largest step may ask for, so that every step can run, if need be alone.
    """
    return max(LARGEST_STEP_MB, usable_mb(root) * 3 // 4)


def usable_mb(root: Path = Path("/")) -> int:
    """Returns the memory of the machine, or less where a control group of the process, version 1 or 2, has a limit."""
    return min(_machine(root), *_limits(root)) >> 20


def _machine(root: Path) -> int:
    for line in (root / "proc/meminfo").read_text().splitlines():
        name, _, size = line.partition(":")
        if name == "MemTotal":
            return int(size.split()[0]) * 1024
    raise ValueError("the system does not tell how much memory there is")


def _limits(root: Path) -> Iterator[int]:
    """Yields the limits of the process's groups and of all groups above them; in a container those that it can see."""
    yield 1 << 62
    with suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            number, controllers, path = line.split(":", 2)
            if number == "0":
                yield from _limits_above(root / "sys/fs/cgroup", path, "memory.max")
            elif "memory" in controllers.split(","):
                yield from _limits_above(root / "sys/fs/cgroup/memory", path, "memory.limit_in_bytes")


def _limits_above(base: Path, path: str, name: str) -> Iterator[int]:
    group = base / path.lstrip("/")
    for folder in (group, *(parent for parent in group.parents if parent.is_relative_to(base))):
        # Without a limit it says `max`, or is not there.
        with suppress(OSError, ValueError):
            yield int((folder / name).read_text())
