"""Runs that wait for a process, by workflow and key, and how long a start will probably wait."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from backend.common.states import LOWER_CLASS_SHARE, KeyPriority
from backend.services.runs import waiting_runs_sql as sql
from backend.services.runs.waiting_runs_sql import WaitingRow
from backend.storage.database import Tx

OF_PEOPLE: Final = ""
"""The key id of runs that no key started."""

_CLASSES: Final[Sequence[str]] = list(KeyPriority)
_NORMAL: Final = _CLASSES.index(KeyPriority.NORMAL)
_WINDOW_MS: Final = 300_000


class Waiting(NamedTuple):
    """Waiting runs of a workflow or key: how many, and since when the oldest waits, in ms since the epoch."""

    id: str
    name: str
    number: int
    oldest_at: int


class Rate(NamedTuple):
    """Number of runs that began within a time while others waited, in milliseconds."""

    begun: int
    within: int


class _Queue:
    """The runs without a parent that wait for a place, added up once: by key, and by class with the keys' shares."""

    def __init__(self, rows: Sequence[WaitingRow], taken: Mapping[str, int]) -> None:
        self._waiting = Counter[str]()
        self._class_of = dict[str, int]()
        for row in rows:
            if not row.depth:
                self._waiting[row.key_id] += row.queued - row.handed_over
                self._class_of[row.key_id] = _class_of(row)
        self._taken = taken
        # The runs of each key that wait and that processes have, by class.
        self._shares: list[list[tuple[int, int]]] = [[] for _ in _CLASSES]
        for key_id, number in self._waiting.items():
            self._shares[self._class_of[key_id]].append((number, taken.get(key_id, 0)))
        self._numbers = [sum(number for number, _ in shares) for shares in self._shares]
        self._places: dict[tuple[int, int], int] = {}

    @property
    def is_empty(self) -> bool:
        """True if no run waits for a place."""
        return not any(self._numbers)

    def place(self, key_id: str) -> int:
        """Returns the place of a run that a key starts now, from 1, which is equal for keys of one class and share."""
        share = self._taken.get(key_id, 0) + self._waiting[key_id] + 1
        own = self._class_of.get(key_id, _NORMAL)
        place = self._places.get((own, share))
        if place is None:
            # The key itself waits with fewer runs than its new share, and counts with all of them.
            place = 1 + sum(min(number, max(0, share - taken)) for number, taken in self._shares[own])
            others = LOWER_CLASS_SHARE - 1
            higher, lower = sum(self._numbers[:own]), sum(self._numbers[own + 1 :])
            place += min(higher, others * place) + min(lower, place // others)
            self._places[own, share] = place
        return place


@dataclass(frozen=True)
class WaitingRuns:
    """The waiting runs of a deployment in one snapshot; `taken` counts by key the segments that processes have."""

    rows: Sequence[WaitingRow]
    taken: Mapping[str, int]
    rate: Rate

    @property
    def oldest_at(self) -> int | None:
        """Since when the oldest waits; None if none does."""
        return min((row.oldest_at for row in self.rows), default=None)

    def by_workflow(self) -> list[Waiting]:
        """Returns the waiting runs of each workflow, the most first."""
        return _added_up([Waiting(row.workflow_id, row.workflow_name, row.queued, row.oldest_at) for row in self.rows])

    def by_key(self) -> list[Waiting]:
        """Returns the waiting runs of each key, the most first."""
        return _added_up([Waiting(row.key_id, row.key_name or "", row.queued, row.oldest_at) for row in self.rows])

    def start_wait(self, key_id: str) -> int | None:
        """Estimates how long a run that a key starts now will wait, in milliseconds; None if unknown.

        The estimate is the number of runs that begin before it, and itself, divided by the rate at which runs began
        while the oldest waiting run waited, in the last five minutes at most. Keys get fair shares: before the run
        begin the waiting runs of its key, and as many of each other key of its priority as bring that key to an equal
        number in process; of eight runs, one at least is of each lower priority. Later starts, approvals and runs that
        suddenly take longer are not foreseen, and the wait is unknown while no run has begun. Child runs have room of
        their own and do not count.
        """
        if self._queue.is_empty:
            return 0
        if not self.rate.begun:
            return None
        return self._queue.place(key_id) * self.rate.within // self.rate.begun

    def longest_start_wait(self) -> int | None:
        """Estimates the wait of a run that a key with waiting runs, or a person, starts now: the longest of them."""
        waits = [self.start_wait(key_id) for key_id in {OF_PEOPLE, *(row.key_id for row in self.rows)}]
        known = [wait for wait in waits if wait is not None]
        return max(known, default=None)

    @cached_property
    def _queue(self) -> _Queue:
        return _Queue(self.rows, self.taken)


def waiting_runs(tx: Tx, now: int) -> WaitingRuns:
    """Returns the waiting runs, and the rate at which runs begin."""
    rows = sql.waiting_rows(tx)
    taken = Counter(sql.running_by_key(tx))
    for row in rows:
        if not row.depth:
            taken[row.key_id] += row.handed_over
    oldest = min((row.oldest_at for row in rows if row.queued > row.handed_over and not row.depth), default=None)
    return WaitingRuns(rows, taken, Rate(0, 0) if oldest is None else _rate(tx, oldest, now))


def _rate(tx: Tx, oldest_at: int, now: int) -> Rate:
    """Returns the rate of begun runs since the oldest began to wait: before, fewer may have begun than could."""
    since = max(oldest_at, now - _WINDOW_MS)
    ended = sql.newest_ended(tx, since)
    if len(ended) == sql.MOST_ENDED:
        since = ended[-1].finished_at
    begun = sum(row.started_at is not None and row.started_at >= since for row in ended)
    return Rate(begun + sql.begun_in_flight(tx, since), max(1, now - since))


def _class_of(row: WaitingRow) -> int:
    return _NORMAL if row.priority is None else _CLASSES.index(row.priority)


def _added_up(parts: Sequence[Waiting]) -> list[Waiting]:
    found: dict[str, Waiting] = {}
    for part in parts:
        before = found.get(part.id, part._replace(number=0))
        found[part.id] = before._replace(
            number=before.number + part.number, oldest_at=min(before.oldest_at, part.oldest_at)
        )
    return sorted(found.values(), key=lambda each: (-each.number, each.oldest_at, each.id))
