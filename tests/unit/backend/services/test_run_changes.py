import threading
from collections.abc import Collection

import pytest

from backend.services.run_changes import RunChanges
from backend.storage.commits import Listener


class Database:
    """A database that announces what a test wants."""

    def listen(self, listener: Listener) -> None:
        self._listener = listener

    def announce(self, names: Collection[str] | None) -> None:
        self._listener(names)


@pytest.fixture
def database() -> Database:
    return Database()


@pytest.fixture
def changes(database: Database) -> RunChanges:
    return RunChanges(database)  # type: ignore[arg-type] # what it uses of one


def test_a_subscription_has_the_changes_of_its_run_and_one_to_all_those_of_every_run(
    database: Database, changes: RunChanges
) -> None:
    one, every = changes.subscribe("run_a"), changes.subscribe()
    database.announce(["run_a", "run_b"])
    assert one.take() == ({"run_a"}, False)
    assert every.take() == ({"run_a", "run_b"}, False)
    assert one.take() == (set(), False)
    one.close()
    database.announce(["run_a"])
    assert one.take() == (set(), False)


def test_what_may_have_been_missed_is_told_to_all(database: Database, changes: RunChanges) -> None:
    subscriptions = [changes.subscribe("run_a"), changes.subscribe()]
    database.announce(None)
    assert [subscription.take() for subscription in subscriptions] == [(set(), True)] * 2


def test_a_change_before_the_wait_is_not_missed(database: Database, changes: RunChanges) -> None:
    subscription = changes.subscribe("run_a")
    called = threading.Event()
    database.announce(["run_a"])
    subscription.wait(60)
    subscription.add_done_callback(called.set)
    assert called.is_set()


def test_a_call_back_is_called_once(database: Database, changes: RunChanges) -> None:
    subscription = changes.subscribe("run_a")
    calls: list[int] = []
    subscription.add_done_callback(lambda: calls.append(1))
    assert calls == []
    database.announce(["run_a"])
    database.announce(["run_a"])
    assert calls == [1]


def test_what_is_no_run_is_no_change(database: Database, changes: RunChanges) -> None:
    subscription = changes.subscribe()
    database.announce(["webhooks"])
    assert subscription.take() == (set(), False)


def test_the_end_is_told_also_to_later_subscriptions(changes: RunChanges) -> None:
    before = changes.subscribe("run_a")
    changes.end()
    assert before.ended
    assert changes.subscribe("run_b").ended
