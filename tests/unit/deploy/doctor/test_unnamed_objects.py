"""`doctor --objects` names each old object that no row names, of a folder and of a bucket; `--repair` removes them."""

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from backend.settings import ObjectSettings
from backend.storage.factory import DATABASE_FILE, DataFolder
from backend.storage.object_keys import object_key, shared_file_key, step_log_key, upload_part_key
from backend.storage.objects import ObjectStore, open_objects
from deploy.client.backend import os_user
from deploy.config.settings import Objects, Settings
from deploy.doctor.examination import ExaminedPart, Finding, Outcome, ServingPart
from deploy.doctor.unnamed_objects import check_unnamed_objects
from tests.support.postgresql import Postgresql
from tests.support.s3_server import S3Server
from tests.unit.deploy.fake_backend import command

NAMED = object_key("run_done", "out_named")
LEFT = object_key("run_done", "out_left")
OF_NOBODY = (object_key("run_erased", "out_1"), step_log_key("run_none", "a", 1), upload_part_key("upl_none", 1, 0, 4))
SHARED = (shared_file_key("run_done", "a", "shared_named"), shared_file_key("run_done", "a", "shared_left"))
KEPT = (
    NAMED,
    SHARED[0],
    step_log_key("run_done", "a", 1),
    object_key("run_done", "reviews/made"),
    object_key("run_going", "out_early"),
    object_key("run_unswept", "out_swept"),
    upload_part_key("upl_here", 1, 0, 4),
)
UNNAMED = {LEFT, SHARED[1], *OF_NOBODY}
RUN = {
    "key_id": "",
    "workflow_id": "wf",
    "workflow_name": "wf",
    "version": 1,
    "status": "completed",
    "triggered_by": "api",
    "labels": "{}",
    "warnings": "[]",
    "pii_policy": "{}",
    "redaction_state": "none",
    "created_at": 1,
} | dict.fromkeys(
    ("steps_total", "steps_completed", "steps_failed", "steps_skipped", "approvals_pending", "outputs_count"), 0
)
RUNS = (
    {"run_id": "run_done", "finished_at": 1},
    {"run_id": "run_erased", "finished_at": 1, "data_purged_at": 2},
    {"run_id": "run_going"},
    {"run_id": "run_unswept", "finished_at": 1, "redaction_state": "pending"},
)
DEPLOYMENT = {
    "deployment_id": "plant",
    "governed": 1,
    "api_enabled": 1,
    "any_key_ever": 0,
    "licence_state": "active",
    "retention_days": 30,
    "revision": 1,
    "cursor_secret": "",
}


def rows() -> Iterator[tuple[str, dict[str, Any]]]:
    yield "deployments", DEPLOYMENT
    for run in RUNS:
        yield "runs", RUN | run
    named = {"run_id": "run_done", "path": "a.txt", "size_bytes": 4, "object_key": NAMED}
    yield "outputs", named | {"output_id": "out_named", "media_type": "text/plain", "sha256": "0", "created_at": 1}
    yield "shared_files", named | {"step": "a", "object_key": SHARED[0]}
    yield "uploads", {"upload_id": "upl_here", "owner": "user:ann", "created_at": 1, "expires_at": 2}


def insert(database: Any, table: str, row: dict[str, Any], mark: str) -> None:
    database.execute(
        f"INSERT INTO {table} ({', '.join(row)}) VALUES ({', '.join([mark] * len(row))})", list(row.values())
    )


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    with closing(DataFolder(path)) as folder, closing(folder.open_database()):
        pass
    with closing(sqlite3.connect(path / DATABASE_FILE, isolation_level=None)) as database:
        for table, row in rows():
            insert(database, table, row, "?")
    return path


@pytest.fixture(params=["folder", "bucket"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Settings]:
    if request.param == "folder":
        yield replace(Settings(), objects=Objects(folder=tmp_path / "objects"))
        return
    server: S3Server = request.getfixturevalue("s3_server")
    server.fill("kept", {})
    yield replace(Settings(), objects=Objects(store="s3", bucket="kept", prefix="dep/", endpoint_url=server.url))


@pytest.fixture
def objects(settings: Settings, tmp_path: Path) -> ObjectStore:
    given = {name: getattr(settings.objects, name) for name in Objects.__slots__}
    store = open_objects(ObjectSettings(**given), tmp_path / "objects")
    for key in (*KEPT, *UNNAMED):
        store.put_bytes(key, b"text")
    return store


@pytest.fixture
def two_hours_later(objects: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time
    monkeypatch.setattr("deploy.doctor.unnamed_objects.time.time", lambda: now() + 7_200)


def found(data: Path, settings: Settings, *, repair: bool = False) -> list[Finding]:
    examined = ExaminedPart(ServingPart.SERVE, settings, data, {}, every_object=True, repair=repair)
    return list(check_unnamed_objects(examined))


def keys_in(findings: list[Finding]) -> set[str]:
    return {each.message.partition(" ")[0] for each in findings[:-1]}


def exists(objects: ObjectStore, key: str) -> bool:
    try:
        objects.open_range(key, 0, 4).close()
    except KeyError:
        return False
    return True


@pytest.mark.usefixtures("objects")
def test_objects_younger_than_an_hour_count_as_being_stored(data: Path, settings: Settings) -> None:
    (check,) = found(data, settings, repair=True)
    assert (check.outcome, check.message) == (Outcome.OK, "Rows name all objects that are older than an hour.")


@pytest.mark.usefixtures("two_hours_later")
def test_old_objects_that_no_row_names_are_listed_with_their_sizes_and_stay(
    data: Path, settings: Settings, objects: ObjectStore
) -> None:
    findings = found(data, settings)
    assert keys_in(findings) == UNNAMED
    assert findings[0].message.endswith(" has 4 bytes, and no row names it.")
    assert {each.outcome for each in findings} == {Outcome.WARNING}
    assert findings[-1].message == "No row names 5 objects of 20 bytes in all."
    assert all(exists(objects, key) for key in UNNAMED)


@pytest.mark.usefixtures("two_hours_later")
def test_a_repair_removes_them_alone_and_is_audited(data: Path, settings: Settings, objects: ObjectStore) -> None:
    assert found(data, settings, repair=True)[-1].message == "Removed 5 objects of 20 bytes."
    assert not any(exists(objects, key) for key in UNNAMED)
    assert all(exists(objects, key) for key in KEPT)
    with closing(sqlite3.connect(data / DATABASE_FILE)) as database:
        audited = database.execute("SELECT actor, action, target, details FROM audit_records").fetchall()
    [(actor, action, target, details)] = audited
    assert (actor, action, target) == (os_user(), "objects.removed", "plant")
    assert json.loads(details) == {"objects": 5, "bytes": 20}
    assert [each.outcome for each in found(data, settings)] == [Outcome.OK]


@pytest.mark.usefixtures("two_hours_later")
def test_an_object_whose_row_changed_since_the_first_look_stays(
    data: Path, settings: Settings, objects: ObjectStore
) -> None:
    examined = ExaminedPart(ServingPart.SERVE, settings, data, {}, every_object=True, repair=True)
    checks = check_unnamed_objects(examined)
    next(checks)
    with closing(sqlite3.connect(data / DATABASE_FILE, isolation_level=None)) as database:
        database.execute("UPDATE outputs SET object_key = ?", (LEFT,))
    assert list(checks)[-1].message == "Removed 4 objects of 16 bytes."
    assert exists(objects, LEFT)
    assert exists(objects, NAMED)


@pytest.mark.parametrize("settings", ["folder"], indirect=True)
@pytest.mark.usefixtures("two_hours_later")
def test_without_a_deployment_nothing_is_removed(tmp_path: Path, settings: Settings, objects: ObjectStore) -> None:
    (check,) = found(tmp_path / "none", settings, repair=True)
    assert check.outcome is Outcome.NOT_APPLICABLE
    assert all(exists(objects, key) for key in UNNAMED)


@pytest.mark.parametrize("settings", ["folder"], indirect=True)
@pytest.mark.usefixtures("two_hours_later")
def test_a_repair_of_a_deployment_on_postgresql_is_audited_there(
    settings: Settings, objects: ObjectStore, postgresql_server: Postgresql, tmp_path: Path
) -> None:
    postgresql_server.empty()
    url = postgresql_server.shared
    with psycopg.connect(url, autocommit=True) as database:
        for table, row in rows():
            insert(database, table, row, "%s")
        used = replace(settings, backend=replace(settings.backend, database=url))
        assert found(tmp_path, used, repair=True)[-1].message == "Removed 5 objects of 20 bytes."
        assert all(exists(objects, key) for key in KEPT)
        audited = database.execute("SELECT details FROM audit_records").fetchall()
    assert [json.loads(details) for (details,) in audited] == [{"objects": 5, "bytes": 20}]


@pytest.mark.parametrize("settings", ["folder"], indirect=True)
@pytest.mark.usefixtures("two_hours_later")
def test_the_command_removes_only_with_yes(
    data: Path, settings: Settings, objects: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKFLOW_API_OBJECTS_FOLDER", str(settings.objects.folder))
    listed = command("doctor", "worker", "--data", str(data), "--repair")
    assert "`--repair --yes` removes them." in listed.out
    assert all(exists(objects, key) for key in UNNAMED)
    removed = command("doctor", "worker", "--data", str(data), "--repair", "--yes")
    assert "Removed 5 objects of 20 bytes." in removed.out
    assert not any(exists(objects, key) for key in UNNAMED)


@pytest.mark.parametrize("options", [("worker", "--yes"), ("edge", "--repair")])
def test_a_repair_without_its_terms_is_misuse(options: tuple[str, ...]) -> None:
    assert command("doctor", *options).code == 2
