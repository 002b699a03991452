"""Slots in which steps execute, their shared memory, and the limits of an environment (contract 22.6)."""

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
"""Slots from which on one is reserved: with fewer, a single key would lose half of its throughput or all."""
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
    space for `LEAST_TO_RESERVE` steps of the requested size. Those keys may overtake a request that only this
    reservation blocks. With `reserve` False nothing is reserved, because the dispatch of segments does it.

    Used on the engine's loop only, but for `try_take`.
    """

    def __init__(self, count: int, memory_mb: int, *, reserve: bool = True) -> None:
        self.count = count
        self._reserve = reserve
        self.memory_mb = memory_mb
        self._free = count
        self._free_mb = memory_mb
        self._slots_of_key: Counter[str] = Counter()
        self._waiting: dict[str, deque[_Request]] = {}
        self._front: _Request | None = None
        self._lock = threading.Lock()

    @property
    def in_use(self) -> int:
        """Number of slots in use; from any thread."""
        return self.count - self._free

    def request(self, key: str, memory_mb: int) -> asyncio.Future[None]:
        """Returns a future that is done once the caller has a slot; the caller releases the slot or cancels the future.

        `memory_mb` is at most the memory of all slots.
        """
        slot: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Other requests may wait behind a cancelled one.
        slot.add_done_callback(lambda _: self._grant())
        with self._lock:
            self._waiting.setdefault(key, deque()).append(_Request(key, memory_mb, slot))
        self._grant()
        return slot

    def try_take(self, key: str, memory_mb: int) -> bool:
        """Takes a slot if one is free and no request waits; from any thread, but released on the loop."""
        with self._lock:
            if self._waits() or not self._free or memory_mb > self._free_mb or not self._leaves_room(key, memory_mb):
                return False
            self._take(key, memory_mb)
            return True

    def release(self, key: str, memory_mb: int) -> None:
        """Releases a slot with the memory that was requested."""
        with self._lock:
            self._slots_of_key[key] -= 1
            if not self._slots_of_key[key]:
                del self._slots_of_key[key]
            self._free += 1
            self._free_mb += memory_mb
        self._grant()

    def _grant(self) -> None:
        with self._lock:
            while (request := self._next_request()) is not None:
                request.slot.set_result(None)
                self._take(request.key, request.memory_mb)

    def _take(self, key: str, memory_mb: int) -> None:
        self._slots_of_key[key] += 1
        self._free -= 1
        self._free_mb -= memory_mb

    def _next_request(self) -> _Request | None:
        """Removes and returns the next request that can be granted, or None."""
        if not self._free or not self._waits():
            return None
        if self._front is None:
            key = self._next_key()
            first = self._waiting[key][0]
            if first.memory_mb <= self._free_mb and not self._leaves_room(key, first.memory_mb):
                # No waiting key is without a slot.
                return None
            self._front = self._pop(key)
        front = self._front
        if front.memory_mb > self._free_mb:
            return None
        if self._leaves_room(front.key, front.memory_mb):
            self._front = None
            return front
        key = self._next_key() if self._waiting else front.key
        fits = not self._slots_of_key[key] and self._waiting[key][0].memory_mb <= self._free_mb
        return self._pop(key) if fits else None

    def _waits(self) -> bool:
        """Returns whether a request waits; drops cancelled requests."""
        if self._front is not None and self._front.slot.done():
            self._front = None
        while self._waiting and self._waiting[key := self._next_key()][0].slot.done():
            self._pop(key)
        return self._front is not None or bool(self._waiting)

    def _next_key(self) -> str:
        return min(self._waiting, key=self._slots_of_key.__getitem__)

    def _pop(self, key: str) -> _Request:
        waiting = self._waiting.pop(key)
        request = waiting.popleft()
        if waiting:
            # Placed behind other keys with the same number of slots.
            self._waiting[key] = waiting
        return request

    def _leaves_room(self, key: str, memory_mb: int) -> bool:
        """Returns whether a slot for the key leaves the reservation for keys without slots untouched."""
        if not self._reserve:
            return True
        if not self._slots_of_key[key] or min(self.count, self.memory_mb // max(1, memory_mb)) < LEAST_TO_RESERVE:
            return True
        return self._free > 1 and self._free_mb - memory_mb >= self.memory_mb // self.count


def limits_of(environment: Definition, outputs: OutputLimits, timeout_seconds: int | None = None) -> Limits:
    """Returns the limits of a step in an environment; `timeout_seconds` may shorten the environment's."""
    seconds = environment["timeout_seconds"]
    return Limits(
        environment["memory_mb"],
        seconds if timeout_seconds is None else min(timeout_seconds, seconds),
        environment["workspace_mb"],
        # An environment that was applied before this field existed has no network.
        environment.get("network", "none"),
        outputs,
    )


def memory_of(step: ResolvedStep) -> int:
    """Returns the MB that a step reserves while it runs; 0 for a model's step without agents as tools."""
    if step.agent is None or (step.agent["type"] != "python" and not step.tools):
        return 0
    return int(step.environment["memory_mb"])


DEFAULT_LIMITS: Final = limits_of(DEFAULT_ENVIRONMENT, OutputLimits())


def default_memory_mb(root: Path = Path("/")) -> int:
    """Returns three quarters of the usable MB; the rest is for the process and files of steps in memory.

    Returns at least `LARGEST_STEP_MB`, so that every step can run, if need be alone.
    """
    return max(LARGEST_STEP_MB, usable_mb(root) * 3 // 4)


def usable_mb(root: Path = Path("/")) -> int:
    """Returns the memory of the machine, or less where a control group of the process, version 1 or 2, has a limit."""
    return min(_machine_memory(root), *_memory_limits(root)) >> 20


def _machine_memory(root: Path) -> int:
    for line in (root / "proc/meminfo").read_text().splitlines():
        name, _, size = line.partition(":")
        if name == "MemTotal":
            return int(size.split()[0]) * 1024
    raise ValueError("the system does not tell how much memory there is")


def _memory_limits(root: Path) -> Iterator[int]:
    """Yields the byte limits of the process's control groups and of their visible ancestors."""
    yield 1 << 62
    with suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            number, controllers, path = line.split(":", 2)
            if number == "0":
                yield from _group_limits(root / "sys/fs/cgroup", path, "memory.max")
            elif "memory" in controllers.split(","):
                yield from _group_limits(root / "sys/fs/cgroup/memory", path, "memory.limit_in_bytes")


def _group_limits(base: Path, path: str, name: str) -> Iterator[int]:
    group = base / path.lstrip("/")
    for folder in (group, *(parent for parent in group.parents if parent.is_relative_to(base))):
        # A group without a limit has `max` in this file, or no file.
        with suppress(OSError, ValueError):
            yield int((folder / name).read_text())
