"""The embedded database: acknowledged changes are on the disk."""

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, Text, bindparam, create_engine, insert

from backend.common.metrics import DATABASE_QUEUE
from backend.storage.database import DatabaseUnavailableError, Tx
from backend.storage.dialects.sqlite.database import SqliteDatabase
from backend.storage.statements import Command, Query, select_row
from tests.support.poll import until

CATALOGUE = MetaData()
NOTES = Table("notes", CATALOGUE, Column("number", Integer, primary_key=True), Column("text", Text, nullable=False))


class Note(NamedTuple):
    number: int
    text: str


ADD = Command(insert(NOTES), ["number", "text"])
GET = Query(Note, select_row(Note, NOTES).where(NOTES.c.number == bindparam("number")))
ALL = Query(Note, select_row(Note, NOTES).order_by(NOTES.c.number))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "notes.sqlite3"
    engine = create_engine(f"sqlite:///{file}")
    CATALOGUE.create_all(engine)
    engine.dispose()
    return file


@pytest.fixture
def database(path: Path) -> Iterator[SqliteDatabase]:
    database = SqliteDatabase(path)
    yield database
    database.close()


def add(database: SqliteDatabase, number: int, text: str = "text") -> None:
    database.write(lambda tx: tx.run(ADD, number=number, text=text))


def numbers(database: SqliteDatabase) -> list[int]:
    return [row.number for row in database.read(lambda tx: tx.all(ALL))]


def hold_writer(database: SqliteDatabase) -> tuple[Future[bool], threading.Event]:
    """Keeps the writer busy until the event is set; what is written meanwhile waits for the next commit."""
    begun, gate = threading.Event(), threading.Event()

    def work(_tx: Tx) -> bool:
        begun.set()
        return gate.wait(60)

    held = database.write_soon(work)
    begun.wait(60)
    return held, gate


def test_commits_are_counted_before_their_results_are_known(database: SqliteDatabase) -> None:
    before = database.commit_marks.ended
    counted: list[int] = []
    done = database.write_soon(lambda tx: tx.run(ADD, number=1, text="text"))
    done.add_done_callback(lambda _: counted.append(database.commit_marks.ended))
    done.result()
    until(lambda: counted == [before + 1], "the commit is counted")


def test_commits_of_uncounted_changes_alone_are_not_counted(database: SqliteDatabase) -> None:
    def keeps_caches_valid(tx: Tx) -> None:
        tx.keeps_caches_valid = True
        tx.run(ADD, number=1, text="text")

    before = database.commit_marks.ended
    database.write(keeps_caches_valid)
    assert (database.commit_marks.ended, numbers(database)) == (before, [1])
    assert unchanged(database, before) == ["run_1", "run_2", "ak_1", "ak_2"]
    add(database, 2)
    assert database.commit_marks.ended == before + 1


NAMES = ("run_1", "run_2", "ak_1", "ak_2")


def unchanged(database: SqliteDatabase, since: int) -> list[str]:
    return [name for name in NAMES if database.commit_marks.unchanged(name, since)]


def add_of_run(database: SqliteDatabase, number: int, run_id: str, key_id: str) -> Future[None]:
    def work(tx: Tx) -> None:
        tx.changes_run(run_id, key_id)
        tx.run(ADD, number=number, text="text")

    return database.write_soon(work)


def test_a_commit_that_changes_a_run_changes_nothing_of_other_runs_and_keys(database: SqliteDatabase) -> None:
    before = database.commit_marks.ended
    add_of_run(database, 1, "run_1", "ak_1").result()
    assert unchanged(database, before) == ["run_2", "ak_2"]
    assert unchanged(database, before + 1) == list(NAMES)


def test_a_commit_of_several_changes_changes_the_runs_of_each(database: SqliteDatabase) -> None:
    before = database.commit_marks.ended
    held, gate = hold_writer(database)
    changes = [add_of_run(database, number, f"run_{number}", "ak_1") for number in (1, 2)]
    gate.set()
    held.result()
    for change in changes:
        change.result()
    assert unchanged(database, before + 1) == ["ak_2"]


def test_a_change_that_names_no_run_may_have_changed_anything_beside_one_that_does(database: SqliteDatabase) -> None:
    before = database.commit_marks.ended
    held, gate = hold_writer(database)
    change = add_of_run(database, 1, "run_1", "ak_1")
    other = database.write_soon(lambda tx: tx.run(ADD, number=2, text="text"))
    gate.set()
    held.result()
    change.result()
    other.result()
    assert unchanged(database, before + 1) == []


def test_a_change_that_raised_marks_nothing_of_the_commit_that_others_share(database: SqliteDatabase) -> None:
    def fail(_: Tx) -> None:
        raise LookupError

    held, gate = hold_writer(database)
    before = database.commit_marks.ended
    failed, change = database.write_soon(fail), add_of_run(database, 1, "run_1", "ak_1")
    gate.set()
    held.result()
    assert isinstance(failed.exception(), LookupError)
    change.result()
    assert unchanged(database, before + 1) == ["run_2", "ak_2"]


def test_what_a_commit_under_way_changes_counts_as_changed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for those who read meanwhile, who cannot say whether it held already."""
    found: list[tuple[list[str], int]] = []

    class Connection(sqlite3.Connection):
        def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
            if sql != "COMMIT":
                return super().execute(sql, *arguments)
            found.append((unchanged(opened, opened.commit_marks.ended), opened.commit_marks.ended))
            try:
                return super().execute(sql)
            finally:
                found.append((unchanged(opened, opened.commit_marks.ended), opened.commit_marks.ended))

    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *given, **named: connect(*given, **named, factory=Connection))
    opened = SqliteDatabase(path)
    add_of_run(opened, 1, "run_1", "ak_1").result()
    assert found == [(["run_2", "ak_2"], 0)] * 2
    assert unchanged(opened, 0) == ["run_2", "ak_2"]
    assert unchanged(opened, 1) == list(NAMES)
    opened.close()


def test_a_change_is_readable_by_another_connection_once_it_returns(database: SqliteDatabase, path: Path) -> None:
    add(database, 1)
    other = sqlite3.connect(path)
    assert other.execute("SELECT number FROM notes").fetchall() == [(1,)]
    other.close()


def test_work_that_raises_leaves_nothing_and_spares_the_others_of_its_commit(database: SqliteDatabase) -> None:
    gate = threading.Event()
    outcomes: dict[int, BaseException | None] = {}

    def change(number: int) -> None:
        def work(tx: Tx) -> None:
            tx.run(ADD, number=number, text="kept unless odd")
            if number % 2:
                raise ValueError(number)

        try:
            database.write(work)
            outcomes[number] = None
        except ValueError as error:
            outcomes[number] = error

    holder = threading.Thread(target=lambda: database.write(lambda _tx: gate.wait(60)))
    holder.start()
    workers = [threading.Thread(target=change, args=(number,)) for number in range(10)]
    for worker in workers:
        worker.start()
    gate.set()
    for worker in (holder, *workers):
        worker.join()
    assert {number for number, error in outcomes.items() if error} == {1, 3, 5, 7, 9}
    assert numbers(database) == [0, 2, 4, 6, 8]


def test_changes_of_equal_work_that_wait_are_made_together_and_each_has_its_result(database: SqliteDatabase) -> None:
    together: list[list[int]] = []

    def work(tx: Tx, items: Sequence[int]) -> list[int]:
        together.append(list(items))
        tx.many(ADD, [{"number": number, "text": "text"} for number in items])
        return [number * 2 for number in items]

    held, gate = hold_writer(database)
    done = [database.write_grouped(work, number) for number in (1, 2)]
    between = database.write_soon(lambda tx: tx.run(ADD, number=3, text="text"))
    done.append(database.write_grouped(work, 4))
    gate.set()
    held.result()
    assert [one.result() for one in done] == [2, 4, 8]
    assert between.result() == 1
    assert together == [[1, 2, 4]]
    assert numbers(database) == [1, 2, 3, 4]


def test_work_that_raises_for_one_of_several_items_spares_the_others(database: SqliteDatabase) -> None:
    def work(tx: Tx, items: Sequence[int]) -> list[int]:
        for number in items:
            tx.run(ADD, number=number, text="text")
            if number == 2:
                raise ValueError(number)
        return list(items)

    held, gate = hold_writer(database)
    done = [database.write_grouped(work, number) for number in (1, 2, 3)]
    gate.set()
    held.result()
    assert [str(one.exception() or one.result()) for one in done] == ["1", "2", "3"]
    assert isinstance(done[1].exception(), ValueError)
    assert numbers(database) == [1, 3]


@pytest.mark.parametrize("alone_too", [False, True])
def test_work_with_other_than_one_result_for_each_change_spares_the_others_and_the_writer(
    database: SqliteDatabase, alone_too: bool
) -> None:
    def work(tx: Tx, items: Sequence[int]) -> list[int]:
        tx.many(ADD, [{"number": number, "text": "text"} for number in items])
        return [] if alone_too else [1]

    held, gate = hold_writer(database)
    done = [database.write_grouped(work, number) for number in (1, 2)]
    other = database.write_soon(lambda tx: tx.run(ADD, number=3, text="text"))
    gate.set()
    held.result()
    assert [isinstance(one.exception(), ValueError) for one in done] == [alone_too] * 2
    assert other.result() == 1
    add(database, 4)
    assert numbers(database) == ([3, 4] if alone_too else [1, 2, 3, 4])


def test_no_change_succeeds_that_a_full_disk_kept_from_being_committed(database: SqliteDatabase, path: Path) -> None:
    add(database, 0)
    pages = sqlite3.connect(path).execute("PRAGMA page_count").fetchone()[0]
    database.write(lambda tx: tx.connection.execute(f"PRAGMA max_page_count = {pages + 8}", ()))
    held, gate = hold_writer(database)
    told_ok: list[int] = []
    reasons: set[type[Exception]] = set()

    def change(number: int) -> None:
        try:
            add(database, number, "x" * 3000)
            told_ok.append(number)
        except Exception as error:  # noqa: BLE001 - which one is what is asked
            reasons.add(type(error))

    workers = [threading.Thread(target=change, args=(number,)) for number in range(1, 41)]
    for worker in workers:
        worker.start()
    gate.set()
    for worker in workers:
        worker.join()
    held.result()
    assert len(told_ok) < 40
    # Callers are told to come back, and runs try again.
    assert reasons == {DatabaseUnavailableError}
    assert set(told_ok) <= set(numbers(database))


def test_a_statement_names_the_parameter_that_is_missing(database: SqliteDatabase) -> None:
    with pytest.raises(KeyError, match="number"):
        database.read(lambda tx: tx.first(GET))


def test_null_is_a_value_and_not_a_missing_parameter(database: SqliteDatabase) -> None:
    assert database.read(lambda tx: tx.first(GET, number=None)) is None


def test_a_reader_cannot_write(database: SqliteDatabase) -> None:
    with pytest.raises(sqlite3.OperationalError):
        database.read(lambda tx: tx.run(ADD, number=1, text="text"))


def test_actions_run_after_the_commit_and_only_for_work_that_holds(database: SqliteDatabase) -> None:
    seen: list[list[int]] = []

    def kept(tx: Tx) -> None:
        tx.run(ADD, number=1, text="text")
        tx.after_commit(lambda: seen.append(numbers(database)))

    def lost(tx: Tx) -> None:
        tx.after_commit(lambda: seen.append([-1]))
        raise ValueError

    database.write(kept)
    with pytest.raises(ValueError):
        database.write(lost)
    assert seen == [[1]]


def test_a_snapshot_does_not_see_what_is_committed_meanwhile(database: SqliteDatabase) -> None:
    def look(tx: Tx) -> tuple[int, int]:
        before = len(tx.all(ALL))
        writer = threading.Thread(target=add, args=(database, 1))
        writer.start()
        writer.join()
        return before, len(tx.all(ALL))

    assert database.snapshot(look) == (0, 0)
    assert numbers(database) == [1]


def queued(database: SqliteDatabase) -> float:
    """The changes that wait for the writer, as they are measured."""
    [family] = [found for found in database.measured() if found.name == DATABASE_QUEUE.name]
    [sample] = family.samples
    return sample.value


def test_closing_commits_what_has_queued(path: Path) -> None:
    database = SqliteDatabase(path)
    begun, gate = threading.Event(), threading.Event()

    def hold(_: Tx) -> None:
        begun.set()
        gate.wait(60)

    holder = threading.Thread(target=lambda: database.write(hold))
    holder.start()
    assert begun.wait(60)
    writer = threading.Thread(target=add, args=(database, 7))
    writer.start()
    until(lambda: queued(database), "the change behind it")
    gate.set()
    database.close()
    holder.join()
    writer.join()
    again = SqliteDatabase(path)
    assert numbers(again) == [7]
    again.close()


def test_a_database_that_is_closed_is_not_healthy(database: SqliteDatabase) -> None:
    assert database.healthy()
    database.close()
    assert not database.healthy()


def test_an_action_that_fails_does_not_stop_the_writer(database: SqliteDatabase) -> None:
    def fail() -> None:
        raise ValueError

    def change(tx: Tx) -> None:
        tx.run(ADD, number=1, text="text")
        tx.after_commit(fail)

    database.write(change)
    add(database, 2)
    assert numbers(database) == [1, 2]


def test_a_change_after_the_close_is_refused_at_once(path: Path) -> None:
    database = SqliteDatabase(path)
    database.close()
    database.close()
    with pytest.raises(RuntimeError, match="closed"):
        add(database, 1)
