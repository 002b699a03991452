"""What the load knows of the deployment: keys, and runs that were acknowledged."""

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass
class Key:
    """One key's credentials, the newest that were acknowledged."""

    key_id: str
    bearer: str
    external_id: str
    revoked: bool = False
    rotating: bool = False
    rotated_at: float = -math.inf
    """When its last rotation was acknowledged, by the monotonic clock."""

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.bearer}", "X-Service-Key-External-Id": self.external_id}


@dataclass
class Start:
    """A start as it is sent, again and again until it is acknowledged."""

    key: Key
    workflow: str
    idempotency_key: str
    body: dict[str, Any]


@dataclass
class Run:
    """One acknowledged run."""

    run_id: str
    start: Start
    status: str = "queued"
    erased: bool = False
    seen: dict[str, int] = field(default_factory=dict)
    """The next `after_seq` of each segment."""
    last_id: str | None = None
    """The id of the last message of its stream."""

    @property
    def key(self) -> Key:
        return self.start.key

    @property
    def ended(self) -> bool:
        return self.status in {"completed", "failed", "cancelled"}


class LoadRecord:
    """Shared by the threads of the load."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.keys: list[Key] = []
        self._runs: dict[str, Run] = {}
        self._open: list[Start] = []

    def add_key(self, key: Key) -> None:
        with self._lock:
            self.keys.append(key)

    def add_run(self, run_id: str, start: Start, status: str) -> Run:
        with self._lock:
            return self._runs.setdefault(run_id, Run(run_id, start, status))

    def leave_open(self, start: Start) -> None:
        """Remembers a start whose outcome is unknown."""
        with self._lock:
            self._open.append(start)

    def take_open(self) -> list[Start]:
        with self._lock:
            taken, self._open = self._open, []
            return taken

    def runs(self, meant: Callable[[Run], bool] = lambda _: True) -> list[Run]:
        with self._lock:
            return [run for run in self._runs.values() if meant(run)]

    def usable_keys(self) -> list[Key]:
        with self._lock:
            return [key for key in self.keys if not key.revoked]

    def revoked_keys(self) -> list[Key]:
        with self._lock:
            return [key for key in self.keys if key.revoked]


def choose(items: list[T], chance: float, *, newest: int | None = None) -> T | None:
    """The item that a chance in [0, 1) falls on, of the newest so many; None where there is none."""
    among = items if newest is None else items[-newest:]
    return among[int(chance * len(among))] if among else None
