"""Subscriptions to changed runs, fed by announcements of the database after each commit."""

import threading
from collections import defaultdict
from collections.abc import Callable, Collection
from typing import Final, NamedTuple

from backend.common.waits import Pause
from backend.storage.database import Database

CHECK_SECONDS: Final = 30.0
"""Seconds after which a waiter reads unasked: announcements of a process that is killed are lost with it."""

# Other names are announced, too.
_OF_RUN: Final = "run_"


class Changes(NamedTuple):
    """Ids of runs that changed; with `missed`, any others may have changed, too."""

    run_ids: Collection[str]
    missed: bool


class Subscription(Pause):
    """Gathers what changed until it is taken: of one run, or of all of them without `run_id`. From any thread."""

    def __init__(self, owner: "RunChanges", run_id: str | None) -> None:
        self.run_id = run_id
        self._owner = owner
        self._lock = threading.Condition()
        self._run_ids: set[str] = set()
        self._missed = False
        self._ended = False
        self._on_wake: Callable[[], None] | None = None

    @property
    def ended(self) -> bool:
        """Returns whether no change will be added any more, because the process ends."""
        return self._ended

    def add(self, run_ids: Collection[str] | None) -> None:
        """Adds changed runs, None for any that may have been missed."""
        with self._lock:
            if run_ids is None:
                self._missed = True
            else:
                self._run_ids.update(run_ids)
            wake = self._woken()
        wake()

    def end(self) -> None:
        """Wakes who waits, for the last time."""
        with self._lock:
            self._ended = True
            wake = self._woken()
        wake()

    def wake(self) -> None:
        """Wakes who waits, without a change."""
        with self._lock:
            wake = self._woken()
        wake()

    def take(self) -> Changes:
        """Returns what was gathered since the last call."""
        with self._lock:
            changes = Changes(self._run_ids, self._missed)
            self._run_ids, self._missed = set(), False
        return changes

    def wait(self, seconds: float) -> None:
        """Returns once there is something to take, or after so many seconds."""
        with self._lock:
            self._lock.wait_for(self._anything, seconds)

    def add_done_callback(self, action: Callable[[], None]) -> None:
        """Calls the action once, at the next change or wake; at once if there is something to take."""
        with self._lock:
            if not self._anything():
                self._on_wake = action
                return
        action()

    def close(self) -> None:
        """Ends the subscription."""
        self._owner.remove(self)

    def _anything(self) -> bool:
        return bool(self._run_ids) or self._missed or self._ended

    def _woken(self) -> Callable[[], None]:
        """Wakes the thread that waits; returns what is to be called without the lock."""
        self._lock.notify_all()
        action, self._on_wake = self._on_wake, None
        return action or _nothing


class RunChanges:
    """Passes the ids of changed runs on to subscriptions, also of changes by other processes."""

    def __init__(self, database: Database) -> None:
        self._lock = threading.Lock()
        self._of_all: set[Subscription] = set()
        self._of_run: dict[str, set[Subscription]] = defaultdict(set)
        self._ended = False
        database.listen(self._publish)

    def subscribe(self, run_id: str | None = None) -> Subscription:
        """Returns a subscription to the changes of one run, or of all, from now on."""
        subscription = Subscription(self, run_id)
        with self._lock:
            (self._of_all if run_id is None else self._of_run[run_id]).add(subscription)
            ended = self._ended
        if ended:
            subscription.end()
        return subscription

    def remove(self, subscription: Subscription) -> None:
        """Ends a subscription."""
        run_id = subscription.run_id
        with self._lock:
            if run_id is None:
                self._of_all.discard(subscription)
                return
            of_run = self._of_run.get(run_id, set())
            of_run.discard(subscription)
            if not of_run:
                self._of_run.pop(run_id, None)

    def end(self) -> None:
        """Ends all waiting for good."""
        with self._lock:
            self._ended = True
        for subscription in self._all():
            subscription.end()

    def _publish(self, names: Collection[str] | None) -> None:
        if names is None:
            for subscription in self._all():
                subscription.add(None)
            return
        if not self._of_all and not self._of_run:
            return
        run_ids = [name for name in names if name.startswith(_OF_RUN)]
        with self._lock:
            due: list[tuple[Subscription, Collection[str]]] = [(subscription, run_ids) for subscription in self._of_all]
            due += [(subscription, (run_id,)) for run_id in run_ids for subscription in self._of_run.get(run_id, ())]
        for subscription, ids in due:
            subscription.add(ids)

    def _all(self) -> list[Subscription]:
        with self._lock:
            return [*self._of_all, *(one for of_run in self._of_run.values() for one in of_run)]


def _nothing() -> None:
    pass
