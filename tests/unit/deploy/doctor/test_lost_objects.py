"""`doctor --objects` names each object of an output that the store has lost, of a folder and of a bucket."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from backend.settings import ObjectSettings
from backend.storage.factory import DATABASE_FILE, DataFolder
from backend.storage.object_keys import object_key, result_row_key
from backend.storage.objects import ObjectStore, open_objects
from deploy.config.settings import Objects, Settings
from deploy.doctor.examination import ExaminedPart, Finding, Outcome, ServingPart
from deploy.doctor.lost_objects import check_lost_objects, paged_outputs
from tests.support.postgresql import Postgresql
from tests.support.s3_server import S3Server

FILES = {("run_1", "a.txt"): b"a", ("run_1", "b.txt"): b"bb", ("run_2", "c.txt"): b"ccc"}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    with closing(DataFolder(path)) as folder, closing(folder.open_database()):
        pass
    with closing(sqlite3.connect(path / DATABASE_FILE, isolation_level=None)) as database:
        for (run_id, name), content in FILES.items():
            row = (name, run_id, name, "step", "text/plain", len(content), "0", 0, object_key(run_id, name[0]), 0)
            database.execute(f"INSERT INTO outputs VALUES ({','.join('?' * 10)})", row)
        small = ("r", "run_1", "result.json", None, "application/json", 9, "0", 0, result_row_key("run_1"), 0)
        database.execute(f"INSERT INTO outputs VALUES ({','.join('?' * 10)})", small)
    return path


@pytest.fixture(params=["folder", "bucket"])
def settings(request: pytest.FixtureRequest, data: Path) -> Iterator[Settings]:
    if request.param == "folder":
        yield replace(Settings(), objects=Objects(folder=data / "objects"))
        return
    server: S3Server = request.getfixturevalue("s3_server")
    server.fill("kept", {})
    yield replace(Settings(), objects=Objects(store="s3", bucket="kept", prefix="dep/", endpoint_url=server.url))


@pytest.fixture
def objects(settings: Settings, data: Path) -> ObjectStore:
    given = {name: getattr(settings.objects, name) for name in Objects.__slots__}
    store = open_objects(ObjectSettings(**given), data / "objects")
    for (run_id, name), content in FILES.items():
        store.put_bytes(object_key(run_id, name[0]), content)
    return store


def found(data: Path, settings: Settings, *, every_object: bool = True) -> list[Finding]:
    return list(check_lost_objects(ExaminedPart(ServingPart.SERVE, settings, data, {}, every_object=every_object)))


def test_objects_that_are_all_there_are_counted(data: Path, settings: Settings, objects: ObjectStore) -> None:
    (check,) = found(data, settings)
    assert (check.outcome, check.message) == (Outcome.OK, "All 3 objects of outputs are there in their sizes.")
    assert found(data, settings, every_object=False) == []


def test_lost_and_damaged_objects_are_named(data: Path, settings: Settings, objects: ObjectStore) -> None:
    objects.delete(object_key("run_1", "b"))
    objects.put_bytes(object_key("run_2", "c"), b"c")
    lost, damaged = found(data, settings)
    assert lost.outcome is damaged.outcome is Outcome.FAILED
    assert lost.message == "runs/run_1/b, which is b.txt of run run_1, is not there."
    assert damaged.message == "runs/run_2/c, which is c.txt of run run_2, has 1 bytes of 3."


def test_no_transaction_is_open_while_the_store_is_listed(data: Path, settings: Settings) -> None:
    rows = paged_outputs(ExaminedPart(ServingPart.SERVE, settings, data, {}, every_object=True))
    first = next(rows)
    with closing(sqlite3.connect(data / DATABASE_FILE, isolation_level=None)) as database:
        database.execute("DELETE FROM outputs WHERE path = 'c.txt'")
        (busy, *_) = database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    assert (first.path, busy) == ("a.txt", 0)


def test_outputs_are_read_page_by_page_each_once(data: Path, settings: Settings) -> None:
    with closing(sqlite3.connect(data / DATABASE_FILE, isolation_level=None)) as database:
        database.executemany(
            f"INSERT INTO outputs VALUES ({','.join('?' * 10)})",
            [(f"m{n}", "run_many", f"f{n}", None, "text/plain", 0, "0", 0, f"k{n}", 0) for n in range(4_500)],
        )
    found = list(paged_outputs(ExaminedPart(ServingPart.SERVE, settings, data, {}, every_object=True)))
    assert len({(row.run_id, row.path) for row in found}) == len(found) == 4_504


@pytest.fixture
def on_postgresql(postgresql_server: Postgresql) -> Iterator[tuple[psycopg.Connection[Any], Settings]]:
    """A connection to a database with 4,500 outputs, and settings that name the database."""
    postgresql_server.empty()
    url = postgresql_server.shared
    with psycopg.connect(url, autocommit=True) as database:
        database.execute("SET session_replication_role = replica")
        database.execute(
            "INSERT INTO outputs SELECT 'o' || n, 'run_' || n / 100, 'a ' || n || '_B%.txt', NULL, 'text/plain', 3,"
            " '0', 0, 'runs/' || n, 0 FROM generate_series(1, 4500) AS n"
        )
        yield database, replace(Settings(), backend=replace(Settings().backend, database=url))


def test_outputs_on_postgresql_are_read_page_by_page_each_once(
    on_postgresql: tuple[psycopg.Connection[Any], Settings], tmp_path: Path
) -> None:
    _, settings = on_postgresql
    found = list(paged_outputs(ExaminedPart(ServingPart.SERVE, settings, tmp_path, {}, every_object=True)))
    assert len({(row.run_id, row.path) for row in found}) == len(found) == 4_500
    assert {row.size_bytes for row in found} == {3}


def test_no_transaction_is_open_on_postgresql_while_the_store_is_listed(
    on_postgresql: tuple[psycopg.Connection[Any], Settings], tmp_path: Path
) -> None:
    database, settings = on_postgresql
    rows = paged_outputs(ExaminedPart(ServingPart.SERVE, settings, tmp_path, {}, every_object=True))
    next(rows)
    # Waits for every transaction that has read the table.
    database.execute("SET lock_timeout = '60s'")
    database.execute("TRUNCATE outputs")
    assert len(list(rows)) == 1_999
