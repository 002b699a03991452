"""Answers from the cache: never one that a change has made wrong."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, create_engine, select, update

from backend.answer_cache import AnswerCache, Read, cache_lookup, cacheable, cached_or_read, caching, is_cacheable
from backend.clock import DAY_MS, Clock
from backend.storage.database import Database
from backend.storage.dialects.sqlite.database import SqliteDatabase
from backend.storage.statements import Command, ScalarQuery
from contract.local_context import LocalContext
from contract.metadata import KEY_ID, PERSON
from workflow_api.v1.runs_pb2 import GetRunRequest, Run

CATALOGUE = MetaData()
COUNTERS = Table("counters", CATALOGUE, Column("value", Integer, nullable=False))
COUNT = Command(update(COUNTERS).values(value=COUNTERS.c.value + 1))
VALUE = ScalarQuery[int](select(COUNTERS.c.value))

REQUEST = GetRunRequest(run_id="run_1")
METADATA = ((KEY_ID, "ak_1"),)


NOON = DAY_MS // 2


class CommitCounter:
    """Stands in for a database that counts its commits."""

    def __init__(self) -> None:
        self.commits: int | None = 0

    def cache(self, clock: Clock = lambda: NOON) -> AnswerCache:
        return AnswerCache(cast(Database, self), clock)


class Servicer:
    """Answers with how often it read."""

    def __init__(self) -> None:
        self.reads = 0

    def get(self, _: GetRunRequest, __: object) -> Run:
        self.reads += 1
        return Run(etag=str(self.reads))


def reading(cache: AnswerCache, read: Read) -> Read:
    return cached_or_read(cache_lookup(cache, "GetRun", ("GetRun", "OK")), caching(cache, "GetRun", read))


def ask(read: Read, run_id: str = "run_1", key_id: str | None = "ak_1", person: str | None = None) -> str:
    named = ((KEY_ID, key_id), (PERSON, person))
    context = LocalContext(tuple((name, value) for name, value in named if value is not None), 60)
    answer: Any = read(GetRunRequest(run_id=run_id), context)
    return str(answer.etag)


def test_an_answer_is_cached_until_the_next_commit() -> None:
    counted = CommitCounter()
    read = reading(counted.cache(), Servicer().get)
    assert [ask(read), ask(read)] == ["1", "1"]
    counted.commits = 1
    assert [ask(read), ask(read)] == ["2", "2"]


def test_an_answer_is_cached_for_the_same_day() -> None:
    times = iter([NOON, NOON + 1, NOON + DAY_MS, NOON + DAY_MS])
    cache = CommitCounter().cache(lambda: next(times))
    state = cache.state()
    assert state is not None
    cache.put("GetMe", "ak_1", REQUEST, Run(), state)
    assert cache.get("GetMe", "ak_1", REQUEST) == Run()
    assert cache.get("GetMe", "ak_1", REQUEST) is None


def test_each_key_and_request_has_an_answer_of_its_own() -> None:
    read = reading(CommitCounter().cache(), Servicer().get)
    asked = [("run_1", "ak_1"), ("run_2", "ak_1"), ("run_1", "ak_2")]
    assert [ask(read, *each) for each in asked * 2] == ["1", "2", "3"] * 2


def test_internal_services_read_each_time() -> None:
    read = reading(CommitCounter().cache(), Servicer().get)
    assert [ask(read, key_id=None), ask(read, key_id=None)] == ["1", "2"]


@pytest.mark.parametrize("person", ["ada", ""])
def test_a_call_that_names_a_person_is_read_each_time_and_its_answer_not_cached(person: str) -> None:
    """Even where it comes with a key: what a person may see is decided at each call."""
    read = reading(CommitCounter().cache(), Servicer().get)
    assert [ask(read, person=person), ask(read), ask(read), ask(read, person=person)] == ["1", "2", "2", "3"]


@pytest.mark.parametrize("number", [None, 7])
def test_nothing_is_cached_that_was_read_when_a_commit_began(number: int | None) -> None:
    """Nor is anything while it is under way, or where other processes commit."""
    counted, servicer = CommitCounter(), Servicer()

    def get(request: GetRunRequest, context: object) -> Run:
        answer = servicer.get(request, context)
        counted.commits = number
        return answer

    read = reading(counted.cache(), get)
    assert ask(read) == "1"
    assert ask(read) == "2"


def test_a_refusal_is_not_cached() -> None:
    calls: list[int] = []

    def refuse(_: GetRunRequest, __: object) -> Run:
        calls.append(1)
        raise LookupError

    read = reading(CommitCounter().cache(), refuse)
    for _ in range(2):
        with pytest.raises(LookupError):
            ask(read)
    assert len(calls) == 2


def test_an_answer_that_no_longer_holds_is_forgotten_though_it_is_asked_for() -> None:
    counted = CommitCounter()
    cache = counted.cache()
    cache.put("GetRun", "ak_1", REQUEST, Run(), (0, 0))
    counted.commits = 1
    assert cache.get("GetRun", "ak_1", REQUEST) is None
    counted.commits = 0
    assert cache.get("GetRun", "ak_1", REQUEST) is None


def test_a_method_is_cacheable_where_it_is_marked() -> None:
    assert is_cacheable(cacheable(lambda: None))
    assert not is_cacheable(ask)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SqliteDatabase]:
    file = tmp_path / "counters.sqlite3"
    engine = create_engine(f"sqlite:///{file}")
    CATALOGUE.create_all(engine)
    with engine.begin() as connection:
        connection.execute(COUNTERS.insert().values(value=0))
    engine.dispose()
    database = SqliteDatabase(file)
    yield database
    database.close()


def test_who_was_told_of_a_change_sees_it_and_nobody_sees_what_was_before_what_they_saw(
    database: SqliteDatabase,
) -> None:
    read = reading(
        AnswerCache(database, lambda: NOON),
        lambda _, __: Run(etag=str(database.read(lambda tx: tx.scalar_one(VALUE)))),
    )
    over = threading.Event()
    wrong: list[tuple[int, int]] = []

    def watch() -> None:
        last = 0
        while not over.is_set():
            now = int(ask(read))
            if now < last:
                wrong.append((last, now))
            last = now

    with ExitStack() as stack:
        for _ in range(3):
            thread = threading.Thread(target=watch)
            thread.start()
            stack.callback(thread.join)
        stack.callback(over.set)
        for number in range(1, 301):
            database.write(lambda tx: tx.run(COUNT))
            if (told := int(ask(read))) != number:
                wrong.append((number, told))
    assert wrong == []
