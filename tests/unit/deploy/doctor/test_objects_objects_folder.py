"""A folder of objects that was lost, is read-only or is not there yet."""

import hashlib
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from backend.storage.factory import DATABASE_FILE, DataFolder, open_postgresql
from backend.storage.object_keys import object_key, result_row_key
from deploy.config.settings import Objects, Settings
from deploy.doctor.examination import ExaminedPart, Finding, Outcome, ServingPart
from deploy.doctor.files import check_data_folder
from deploy.doctor.objects import check_objects
from tests.support.postgresql import Postgresql
from tests.support.small_disk import SmallDisk

SETTINGS = Settings()
ROW = ("out_1", "run_1", "text.txt", "step", "text/plain", 4, hashlib.sha256(b"text").hexdigest(), 0)
KEY = object_key("run_1", "out_1")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    with closing(DataFolder(path)) as folder, closing(folder.open_database()):
        pass
    return path


def add_output(data: Path, key: str) -> None:
    with closing(sqlite3.connect(data / DATABASE_FILE, isolation_level=None)) as database:
        database.execute(f"INSERT INTO outputs VALUES ({','.join('?' * 10)})", (*ROW, key, None))


def store(folder: Path) -> None:
    (folder / KEY).parent.mkdir(parents=True)
    (folder / KEY).write_bytes(b"text")


def found(data: Path, settings: Settings = SETTINGS, **environment: str) -> Finding:
    (check,) = check_objects(ExaminedPart(ServingPart.BACKEND, settings, data, environment))
    return check


LOSSES: dict[str, Callable[[Path], object]] = {
    "its folder removed": shutil.rmtree,
    "its content removed": lambda folder: shutil.rmtree(folder / "runs"),
}


@pytest.mark.parametrize("lose", LOSSES.values(), ids=LOSSES)
def test_objects_that_rows_name_and_nobody_has_are_a_failure(lose: Callable[[Path], object], data: Path) -> None:
    store(data / "objects")
    add_output(data, KEY)
    assert found(data).outcome is Outcome.OK
    lose(data / "objects")
    check = found(data)
    assert (check.outcome, "database names objects" in check.message) == (Outcome.FAILED, True)
    assert "backup" in check.remedy


def test_objects_of_a_database_on_a_server_are_missed_too(postgresql_server: Postgresql, tmp_path: Path) -> None:
    objects = Objects(store="folder", folder=tmp_path / "shared")
    settings = replace(SETTINGS, backend=replace(SETTINGS.backend, database="env:DATABASE"), objects=objects)
    with postgresql_server.database() as url:
        open_postgresql(url, 1).close()
        with psycopg.connect(url, autocommit=True) as database:
            database.execute("SET session_replication_role = replica")
            database.execute(f"INSERT INTO outputs VALUES ({','.join(['%s'] * 9)})", (*ROW, KEY))
        assert found(tmp_path, settings, DATABASE=url).outcome is Outcome.FAILED
        store(tmp_path / "shared")
        assert found(tmp_path, settings, DATABASE=url).outcome is Outcome.OK


def test_results_that_are_in_rows_are_not_missed(data: Path) -> None:
    add_output(data, result_row_key("run_1"))
    assert found(data).outcome is Outcome.NOT_APPLICABLE


def test_what_an_erasure_removes_meanwhile_is_not_missed(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = iter([[(KEY,)], []])
    monkeypatch.setattr("deploy.doctor.objects.output_rows", lambda *_: next(reads))
    assert found(data).outcome is Outcome.NOT_APPLICABLE


def test_a_folder_that_the_first_start_makes_is_no_problem_unless_it_may_be_a_mount(tmp_path: Path) -> None:
    data = tmp_path / "none"
    assert found(data).outcome is Outcome.NOT_APPLICABLE
    below = replace(SETTINGS, objects=Objects(store="folder", folder=data / "files"))
    assert found(data, below).outcome is Outcome.NOT_APPLICABLE
    elsewhere = found(data, replace(SETTINGS, objects=Objects(store="folder", folder=tmp_path / "shared")))
    assert (elsewhere.outcome, "mount it before" in elsewhere.remedy) == (Outcome.WARNING, True)


def test_a_file_system_that_takes_no_change_is_named_as_the_cause(tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path / "disk", 8)
    data = disk.folder / "data"
    try:
        (data / "objects").mkdir(parents=True, mode=0o700)
        data.chmod(0o700)
        disk.set_read_only()
        for folder in (data, disk.folder / "later"):
            (about,) = check_data_folder(ExaminedPart(ServingPart.SERVE, SETTINGS, folder, {}))
            for check in (about, found(folder)):
                assert (check.outcome, "mounted read-only" in check.message) == (Outcome.FAILED, True)
                assert "Give it to" not in check.remedy
    finally:
        disk.close()
