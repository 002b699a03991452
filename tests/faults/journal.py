"""Journal of calls, answers and faults, one line of JSON each, in the order of events."""

import hashlib
import json
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NO_ANSWER = 0
"""Status of a call that got no whole answer."""


def digest(value: object) -> str:
    """A short name of a value of JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


class Journal:
    """Only grows; times are seconds of one monotonic clock."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("a", encoding="utf-8")
        self._lock = threading.Lock()
        self._calls = 0

    def call(self, kind: str, **about: Any) -> int:
        """Notes what is about to be sent, and gives the number of the call."""
        with self._lock:
            self._calls += 1
            number = self._calls
            self._write({"call": number, "kind": kind, "about": about})
        return number

    def answer(self, number: int, status: int, code: str | None, said: Mapping[str, Any]) -> None:
        """Notes the answer to a call, and what it said."""
        with self._lock:
            self._write({"answer": number, "status": status, "code": code, "said": said})

    def fault(self, number: int, kind: str, *, begins: bool, **about: Any) -> None:
        """Notes that a fault begins, or is over."""
        with self._lock:
            self._write({"fault": number, "kind": kind, "begins": begins, "about": about})

    def part(self, name: str, *, serves: bool) -> None:
        """Notes that a part serves from now on, or does not."""
        with self._lock:
            self._write({"part": name, "serves": serves})

    def close(self) -> None:
        with self._lock:
            self._file.close()

    def _write(self, line: dict[str, Any]) -> None:
        if self._file.closed:
            # Parts end after a campaign.
            return
        self._file.write(json.dumps({"at": round(time.monotonic(), 6), **line}) + "\n")
        self._file.flush()


@dataclass
class Call:
    """One call with its answer; `answered` is when nothing more could come."""

    number: int
    kind: str
    about: dict[str, Any]
    sent: float
    answered: float = float("inf")
    status: int = NO_ANSWER
    code: str | None = None
    said: dict[str, Any] = field(default_factory=dict)

    @property
    def acknowledged(self) -> bool:
        return 200 <= self.status < 300

    def __str__(self) -> str:
        return f"call {self.number} at {self.sent:.1f}: {self.kind} {self.about} -> {self.status} {self.code or ''}"


@dataclass
class FaultWindow:
    """A fault from its beginning to its end."""

    number: int
    kind: str
    began: float
    ended: float = float("inf")


@dataclass
class Record:
    """A whole journal."""

    calls: list[Call]
    fault_windows: list[FaultWindow]
    serving: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    """From when to when each part served."""

    def of(self, *kinds: str) -> Iterator[Call]:
        """The calls of these kinds, in the order in which they were sent."""
        return (call for call in self.calls if call.kind in kinds)

    def acknowledged(self, *kinds: str) -> Iterator[Call]:
        return (call for call in self.of(*kinds) if call.acknowledged)


def read(path: Path) -> Record:
    """Reads a journal; a last line that was cut off counts as not written."""
    calls: dict[int, Call] = {}
    fault_windows: dict[int, FaultWindow] = {}
    serving: dict[str, list[tuple[float, float]]] = {}
    for text in path.read_text(encoding="utf-8").splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            break
        match line:
            case {"call": number, "kind": kind, "about": about, "at": at}:
                calls[number] = Call(number, kind, about, at)
            case {"answer": number, "status": status, "code": code, "said": said, "at": at}:
                call = calls[number]
                call.answered, call.status, call.code, call.said = at, status, code, said
            case {"fault": number, "kind": kind, "begins": True, "at": at}:
                fault_windows[number] = FaultWindow(number, kind, at)
            case {"fault": number, "at": at}:
                fault_windows[number].ended = at
            case {"part": name, "serves": serves, "at": at}:
                spans = serving.setdefault(name, [])
                if spans and spans[-1][1] == float("inf"):
                    spans[-1] = spans[-1][0], at
                if serves:
                    spans.append((at, float("inf")))
    return Record(list(calls.values()), list(fault_windows.values()), serving)
