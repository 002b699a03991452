"""Answers from the cache: never one that a change has made wrong."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, create_engine, select, update

from backend.common.clock import DAY_MS, Clock
from backend.rpc.answer_cache import (
    AnswerCache,
    Dependence,
    Read,
    cache_lookup,
    cacheable,
    caching,
    dependence_of,
)
from backend.rpc.interceptors import Handler
from backend.storage.commits import CommitMarks
from backend.storage.dialects.sqlite.database import SqliteDatabase
from backend.storage.statements import Command, ScalarQuery
from contract.local_context import LocalContext
from contract.metadata import KEY_ID, PERSON
from workflow_api.v1.options_pb2 import MethodRules
from workflow_api.v1.runs_pb2 import GetRunRequest, Run

CATALOGUE = MetaData()
COUNTERS = Table("counters", CATALOGUE, Column("value", Integer, nullable=False))
COUNT = Command(update(COUNTERS).values(value=COUNTERS.c.value + 1))
VALUE = ScalarQuery[int](select(COUNTERS.c.value))

OF_RUN, OF_KEY = Dependence(of_run=True), Dependence(of_run=False)

NOON = DAY_MS // 2


def cache_of(marks: CommitMarks, clock: Clock = lambda: NOON) -> AnswerCache:
    return AnswerCache(marks, clock)


def commit(marks: CommitMarks, *runs: tuple[str, str]) -> None:
    marks.begin([runs])
    marks.end()


class Servicer:
    """Answers with how often it read."""

    def __init__(self) -> None:
        self.reads = 0

    def get(self, _: GetRunRequest, __: object) -> Run:
        self.reads += 1
        return Run(etag=str(self.reads))


def reading(cache: AnswerCache, read: Read, depends: Dependence = OF_RUN) -> Read:
    return Handler(
        caching(cache, "GetRun", depends, read),
        MethodRules(),
        streaming=False,
        page_read=False,
        request_class=GetRunRequest,
        response_class=Run,
        cached_answer=cache_lookup(cache, "GetRun", ("GetRun", "OK")),
    ).answer


def ask(read: Read, run_id: str = "run_1", key_id: str | None = "ak_1", person: str | None = None) -> str:
    named = ((KEY_ID, key_id), (PERSON, person))
    context = LocalContext(tuple((name, value) for name, value in named if value is not None), 60)
    answer: Any = read(GetRunRequest(run_id=run_id), context)
    return str(answer.etag)


@pytest.mark.parametrize("depends", [OF_RUN, OF_KEY])
def test_an_answer_is_cached_until_a_commit_that_may_change_anything(depends: Dependence) -> None:
    marks = CommitMarks()
    read = reading(cache_of(marks), Servicer().get, depends)
    assert [ask(read), ask(read)] == ["1", "1"]
    commit(marks)
    assert [ask(read), ask(read)] == ["2", "2"]


@pytest.mark.parametrize(
    ("depends", "changed", "read_again"),
    [
        (OF_RUN, ("run_1", "ak_2"), True),
        (OF_RUN, ("run_2", "ak_1"), False),
        (OF_KEY, ("run_2", "ak_1"), True),
        (OF_KEY, ("run_1", "ak_2"), False),
    ],
)
def test_an_answer_of_a_run_is_cached_until_that_run_changes_and_one_of_a_key_until_a_run_of_it_does(
    depends: Dependence, changed: tuple[str, str], read_again: bool
) -> None:
    marks = CommitMarks()
    read = reading(cache_of(marks), Servicer().get, depends)
    assert ask(read) == "1"
    commit(marks, changed)
    assert ask(read) == ("2" if read_again else "1")


@pytest.mark.parametrize("of_day", [True, False])
def test_an_answer_with_counters_of_a_day_is_cached_for_that_day(of_day: bool) -> None:
    now = NOON
    read = reading(cache_of(CommitMarks(), lambda: now), Servicer().get, Dependence(of_run=False, of_day=of_day))
    assert ask(read) == "1"
    now += DAY_MS // 4
    assert ask(read) == "1"
    now += DAY_MS // 2
    assert ask(read) == ("2" if of_day else "1")


def test_each_key_and_request_has_an_answer_of_its_own() -> None:
    read = reading(cache_of(CommitMarks()), Servicer().get)
    asked = [("run_1", "ak_1"), ("run_2", "ak_1"), ("run_1", "ak_2")]
    assert [ask(read, *each) for each in asked * 2] == ["1", "2", "3"] * 2


def test_internal_services_read_each_time() -> None:
    read = reading(cache_of(CommitMarks()), Servicer().get)
    assert [ask(read, key_id=None), ask(read, key_id=None)] == ["1", "2"]


@pytest.mark.parametrize("person", ["ada", ""])
def test_a_call_that_names_a_person_is_read_each_time_and_its_answer_not_cached(person: str) -> None:
    """Even where it comes with a key: what a person may see is decided at each call."""
    read = reading(cache_of(CommitMarks()), Servicer().get)
    assert [ask(read, person=person), ask(read), ask(read), ask(read, person=person)] == ["1", "2", "2", "3"]


@pytest.mark.parametrize("runs", [[], [("run_1", "ak_1")]])
@pytest.mark.parametrize("ends", [True, False])
def test_nothing_is_cached_that_was_read_when_a_commit_of_it_began(runs: list[tuple[str, str]], ends: bool) -> None:
    """Nor is anything while it is under way."""
    marks, servicer = CommitMarks(), Servicer()

    def get(request: GetRunRequest, context: object) -> Run:
        answer = servicer.get(request, context)
        if servicer.reads == 1:
            marks.begin([runs])
        if ends:
            marks.end()
        return answer

    read = reading(cache_of(marks), get)
    assert ask(read) == "1"
    assert ask(read) == "2"
    assert ask(read) == ("2" if ends else "3")


def test_an_answer_stays_cached_while_a_commit_of_another_run_is_under_way() -> None:
    marks = CommitMarks()
    read = reading(cache_of(marks), Servicer().get)
    marks.begin([[("run_2", "ak_1")]])
    assert [ask(read), ask(read)] == ["1", "1"]
    marks.end()
    assert ask(read) == "1"


def test_a_refusal_is_not_cached() -> None:
    calls: list[int] = []

    def refuse(_: GetRunRequest, __: object) -> Run:
        calls.append(1)
        raise LookupError

    read = reading(cache_of(CommitMarks()), refuse)
    for _ in range(2):
        with pytest.raises(LookupError):
            ask(read)
    assert len(calls) == 2


def test_an_answer_that_no_longer_holds_is_forgotten_though_it_is_asked_for() -> None:
    now, request = NOON, GetRunRequest(run_id="run_1")
    cache = cache_of(CommitMarks(), lambda: now)
    cache.read("GetRun", Dependence(of_run=True, of_day=True), "ak_1", request, Run)
    now += DAY_MS
    assert cache.get("GetRun", "ak_1", request) is None
    now -= DAY_MS
    assert cache.get("GetRun", "ak_1", request) is None


def test_the_form_in_which_an_answer_is_sent_is_kept_with_it() -> None:
    marks, request = CommitMarks(), GetRunRequest(run_id="run_1")
    cache = cache_of(marks)
    cache.read("GetRun", OF_RUN, "ak_1", request, Run)
    found = cache.get("GetRun", "ak_1", request)
    assert found is not None
    assert found.encoded is None
    found.encoded = 200, b"{}", ()
    assert cache.get("GetRun", "ak_1", request) is found


def test_a_method_is_cacheable_where_it_is_marked() -> None:
    assert dependence_of(cacheable(OF_RUN)(lambda: None)) == OF_RUN
    assert dependence_of(ask) is None


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
        cache_of(database.commit_marks),
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
        for number in range(1, 101):
            database.write(lambda tx: tx.run(COUNT))
            if (told := int(ask(read))) != number:
                wrong.append((number, told))
    assert wrong == []
