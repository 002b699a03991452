"""Each check finds what it is there for, says what to do, shows no secret, and changes nothing."""

import errno
import os
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from backend.common.optional_parts import OptionalPart
from backend.storage.factory import DATABASE_FILE, RESTORING_FILE, DataFolder
from deploy.config.addresses import Address
from deploy.config.settings import (
    Admin,
    BackendSection,
    ClientTls,
    EdgeSection,
    Objects,
    RuntimeSection,
    ServerTls,
    Settings,
    Traces,
)
from deploy.doctor.examination import FAR_SECONDS, ExaminedPart, Finding, Outcome, ServingPart, clock, examine
from deploy.doctor.files import check_data_folder
from deploy.doctor.postgresql import check_postgresql
from deploy.doctor.software import optional_part
from tests.support.authority import Authority
from tests.support.poll import until
from tests.support.postgresql import Postgresql
from tests.support.redis_server import PASSWORD, RedisServer
from tests.support.s3_server import S3Server
from tests.support.small_disk import SmallDisk

OURS, OTHERS = Authority(), Authority("other")
NOWHERE = Address("127.0.0.1", 1)
# Another service may run on this machine.
SETTINGS = Settings(edge=EdgeSection(http=NOWHERE, backend=NOWHERE), backend=BackendSection(grpc=NOWHERE))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    with closing(DataFolder(path)) as folder, closing(folder.open_database()):
        pass
    (path / "objects").mkdir(mode=0o700)
    return path


def found(
    part: ServingPart,
    settings: Settings,
    data: Path,
    *,
    write_probe: bool = False,
    environment: Mapping[str, str] | None = None,
) -> list[Finding]:
    return list(examine(ExaminedPart(part, settings, data, environment or {}, write_probe)))


def problems(checks: list[Finding], *names: str) -> list[Finding]:
    """Returns what was found to be wrong by checks of these names, each with a remedy."""
    wrong = [
        check
        for check in checks
        if check.outcome in {Outcome.FAILED, Outcome.WARNING} and (not names or check.name in names)
    ]
    assert all(check.remedy for check in wrong)
    return wrong


def state(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Returns size, mode and time of every file."""
    about = {path: path.lstat() for path in (folder, *folder.rglob("*"))}
    return {str(path): (each.st_size, each.st_mode, each.st_mtime_ns) for path, each in about.items()}


def damage_database(data: Path) -> None:
    content = bytearray((data / DATABASE_FILE).read_bytes())
    content[4096:12288] = os.urandom(8192)
    (data / DATABASE_FILE).write_bytes(content)


def set_schema(revision: str) -> Callable[[Path], None]:
    def change(data: Path) -> None:
        with closing(sqlite3.connect(data / DATABASE_FILE, isolation_level=None)) as database:
            database.execute("UPDATE alembic_version SET version_num = ?", (revision,))
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    return change


def drop_schema(data: Path) -> None:
    with closing(sqlite3.connect(data / DATABASE_FILE, isolation_level=None)) as database:
        database.execute("DELETE FROM alembic_version")
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")


@pytest.mark.parametrize("part", ServingPart)
def test_a_part_without_anything_is_examined_to_the_end(part: ServingPart, tmp_path: Path) -> None:
    checks = found(part, SETTINGS, tmp_path / "none")
    assert not [check for check in checks if "check itself failed" in check.message]
    failing = {ServingPart.EDGE: {"backend"}, ServingPart.CONSOLE: {"backend"}, ServingPart.WORKER: {"engine"}}.get(
        part, set()
    )
    assert {check.name for check in checks if check.outcome is Outcome.FAILED} == failing
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("write_probe", [False, True])
def test_a_sound_data_folder_is_told_so_and_stays_as_it_is(data: Path, *, write_probe: bool) -> None:
    before = state(data)
    checks = found(ServingPart.SERVE, SETTINGS, data, write_probe=write_probe)
    assert not problems(checks, "data folder", "database", "schema", "journal", "objects", "clock", "database space")
    assert {"database", "schema", "data folder"} <= {check.name for check in checks if check.outcome is Outcome.OK}
    if not write_probe:
        assert state(data) == before
    assert state(data).keys() == before.keys()


DAMAGES: dict[str, tuple[str, Outcome, str, Callable[[Path], object]]] = {
    "a damaged database": ("database", Outcome.FAILED, "", damage_database),
    "no database": ("database", Outcome.FAILED, "", lambda data: (data / DATABASE_FILE).write_bytes(b"text" * 2000)),
    "a later schema": ("schema", Outcome.FAILED, "none after", set_schema("9999")),
    "another's database": ("schema", Outcome.FAILED, "no schema", drop_schema),
    "an earlier schema": ("schema", Outcome.WARNING, "0012", set_schema("0012")),
    "half a restore": ("data folder", Outcome.FAILED, "half", lambda data: (data / RESTORING_FILE).touch()),
    "a folder that others may enter": ("data folder", Outcome.WARNING, "755", lambda data: data.chmod(0o755)),
}


@pytest.mark.parametrize(("name", "outcome", "message", "damage"), DAMAGES.values(), ids=DAMAGES)
def test_what_is_wrong_with_a_data_folder_is_found(
    name: str, outcome: Outcome, message: str, damage: Callable[[Path], object], data: Path
) -> None:
    damage(data)
    (problem,) = problems(found(ServingPart.SERVE, SETTINGS, data), name)
    assert problem.outcome is outcome
    assert message in problem.message


def test_an_empty_database_file_is_left_to_the_first_start(data: Path) -> None:
    (data / DATABASE_FILE).write_bytes(b"")
    checks = found(ServingPart.SERVE, SETTINGS, data)
    assert not problems(checks, "database", "schema")
    assert any("is empty" in check.message for check in checks if check.name == "database")


@pytest.mark.parametrize("place", ["", "data"])
def test_a_file_in_the_place_of_the_data_folder_is_found(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (problem,) = problems(found(ServingPart.SERVE, SETTINGS, tmp_path / "file" / place), "data folder")
    assert (problem.outcome, "is no folder" in problem.message) == (Outcome.FAILED, True)


def test_a_folder_that_the_first_start_cannot_make_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deploy.doctor.files.os.access", lambda path, _: path != tmp_path)
    (problem,) = problems(list(check_data_folder(ExaminedPart(ServingPart.SERVE, SETTINGS, tmp_path / "none", {}))))
    assert "may not make it" in problem.message


def test_what_may_not_be_read_is_told_with_its_name(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(examined: ExaminedPart) -> Iterator[Finding]:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(examined.data / DATABASE_FILE))

    monkeypatch.setattr("deploy.doctor.sqlite_file.check_sqlite", refused)
    (problem,) = problems(found(ServingPart.SERVE, SETTINGS, data), "sqlite file")
    assert problem.message == f"{data / DATABASE_FILE} cannot be read: Permission denied."


def test_a_small_disk_is_told_in_megabytes(tmp_path: Path) -> None:
    disk = SmallDisk(tmp_path / "disk", 8)
    try:
        (check,) = [
            each for each in found(ServingPart.SERVE, SETTINGS, disk.folder) if each.name == "disk of data folder"
        ]
        assert " MB of 8.4 MB free" in check.message
    finally:
        disk.close()


def test_a_layer_that_is_chosen_and_missing_is_a_failure(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    (problem,) = problems(
        found(ServingPart.SERVE, replace(SETTINGS, runtime=RuntimeSection(sandbox="bwrap")), data), "sandbox"
    )
    assert (problem.outcome, "to auto" in problem.remedy) == (Outcome.FAILED, True)


def test_a_service_that_uses_the_folder_is_told_and_not_disturbed(data: Path) -> None:
    with closing(DataFolder(data)) as folder, closing(folder.open_database()) as database:
        checks = found(ServingPart.SERVE, SETTINGS, data)
        assert database.healthy()
    assert not problems(checks, "data folder", "database", "schema")
    assert any("is in use" in check.message for check in checks)


def test_a_file_that_a_service_removes_meanwhile_is_no_problem(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "iterdir", lambda folder: iter([folder / "removed"]))
    assert not problems(list(check_data_folder(ExaminedPart(ServingPart.SERVE, SETTINGS, data, {}))))


def test_files_with_secrets_are_looked_at_and_never_shown(data: Path, tmp_path: Path) -> None:
    value = "a-value-that-nobody-sees"
    for name, mode in (("open", 0o644), ("closed", 0o600)):
        (tmp_path / name).write_text(value)
        (tmp_path / name).chmod(mode)
    (tmp_path / "empty").touch(mode=0o600)
    names = ("open", "closed", "empty", "missing")
    settings = replace(
        SETTINGS, secrets={"variable": "env:NOT_SET", **{name: f"file:{tmp_path / name}" for name in names}}
    )
    checks = found(ServingPart.SERVE, settings, data)
    shown = {problem.message for problem in problems(checks, "secrets")}
    assert len(shown) == 4
    assert any("secrets.missing names, is not there" in message for message in shown)
    assert not any("closed" in message for message in shown)
    assert value not in repr(checks)


def test_steps_that_nothing_isolates_are_a_warning(data: Path) -> None:
    settings = replace(SETTINGS, runtime=RuntimeSection(sandbox="none"))
    assert problems(found(ServingPart.SERVE, settings, data), "sandbox")


def test_more_connections_than_open_files_are_a_warning(tmp_path: Path) -> None:
    settings = replace(SETTINGS, edge=replace(SETTINGS.edge, connections=100_000_000))
    assert problems(found(ServingPart.EDGE, settings, tmp_path), "open files")


CERTIFICATES: dict[str, tuple[str | None, Callable[[Path], object]]] = {
    "one that is in order": (None, lambda folder: OURS.issue("backend.test", days=20).write(folder, OURS.pem)),
    "one that expired": ("expired", lambda folder: OURS.issue("backend.test", days=-1).write(folder, OURS.pem)),
    "one that expires soon": (
        "The certificate of dns:backend.test expires in less than a minute.",
        lambda folder: OURS.issue("backend.test", days=0.0001).write(folder, OURS.pem),
    ),
    "another's key": (
        "is not that of",
        lambda folder: replace(OURS.issue("b.test"), key=OTHERS.issue("b.test").key).write(folder, OURS.pem),
    ),
    "another authority": ("issued", lambda folder: OURS.issue("backend.test", days=20).write(folder, OTHERS.pem)),
    "no file": ("cannot be read", lambda folder: folder.mkdir()),
}


@pytest.mark.parametrize(("message", "write"), CERTIFICATES.values(), ids=CERTIFICATES)
def test_certificates_are_examined(message: str | None, write: Callable[[Path], object], tmp_path: Path) -> None:
    folder = tmp_path / "tls"
    write(folder)
    for path in folder.iterdir():
        path.chmod(0o600)
    tls = ServerTls(folder / "certificate.pem", folder / "key.pem", folder / "ca.pem")
    settings = replace(SETTINGS, backend=replace(SETTINGS.backend, tls=tls))
    wrong = problems(found(ServingPart.BACKEND, settings, tmp_path / "none"), "backend.tls")
    assert len(wrong) == (message is not None)
    assert all(str(message) in problem.message for problem in wrong)


def test_a_certificate_of_administrators_that_cannot_be_used_keeps_no_part_from_its_work(tmp_path: Path) -> None:
    OURS.issue("admin.test", days=-1).write(tmp_path, OURS.pem)
    tls = ClientTls(tmp_path / "certificate.pem", tmp_path / "key.pem", tmp_path / "ca.pem")
    settings = replace(SETTINGS, admin=Admin(backend_tls=tls))
    (problem,) = problems(found(ServingPart.EDGE, settings, tmp_path), "admin.backend_tls")
    assert (problem.outcome, "expired" in problem.message) == (Outcome.WARNING, True)
    elsewhere = replace(SETTINGS, admin=Admin(backend_tls=replace(tls, key=tmp_path / "none.pem")))
    assert not problems(found(ServingPart.EDGE, elsewhere, tmp_path), "admin.backend_tls")


def test_a_key_that_others_read_and_a_name_without_grants_are_found(tmp_path: Path) -> None:
    OURS.issue("edge.test", days=20).write(tmp_path, OURS.pem)
    (tmp_path / "key.pem").chmod(0o644)
    tls = ClientTls(tmp_path / "certificate.pem", tmp_path / "key.pem", tmp_path / "ca.pem")
    settings = replace(SETTINGS, edge=replace(SETTINGS.edge, backend_tls=tls), identities={"dns:other.test": ("edge",)})
    wrong = problems(found(ServingPart.EDGE, settings, tmp_path), "edge.backend_tls")
    assert ["chmod 600" in wrong[0].remedy, "grants nothing" in wrong[1].message] == [True, True]


@pytest.mark.parametrize("part", [ServingPart.SERVE, ServingPart.BACKEND, ServingPart.WORKER, ServingPart.EDGE])
def test_traces_without_their_optional_part_are_a_failure(
    part: ServingPart, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backend.common.optional_parts.can_import", lambda module: "opentelemetry" not in module)
    traced = replace(SETTINGS, traces=Traces(endpoint="http://127.0.0.1:4318"))
    (problem,) = problems(found(part, traced, tmp_path), "optional parts")
    assert ("`otel`" in problem.message, "requirements/image.txt" in problem.remedy) == (True, True)
    assert not problems(found(part, SETTINGS, tmp_path), "optional parts")


PINNED = "install --no-deps --require-hashes -r"
INSTALLED: dict[str, tuple[bool, bool, tuple[str, ...]]] = {
    "of a checkout": (True, True, (f"Run: {sys.executable} -m pip {PINNED} /", "/requirements/image.txt")),
    "of a wheel": (True, False, ("sources of release", f"{PINNED} requirements/image.txt", "'workflow-api[otel]'")),
    "of an image": (False, False, ("REQUIREMENTS=image", f"pip --python {sys.prefix} {PINNED}")),
}


@pytest.mark.parametrize(("pip", "checkout", "told"), INSTALLED.values(), ids=INSTALLED)
def test_a_part_is_installed_from_pins_with_hashes(
    pip: bool, checkout: bool, told: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    part = OptionalPart("otel", ("no_such_module",))
    monkeypatch.setattr("deploy.doctor.software.importlib.util.find_spec", lambda _: object() if pip else None)
    monkeypatch.setattr("backend.common.optional_parts.can_import", lambda _: False)
    if not checkout:
        monkeypatch.setattr("deploy.doctor.software.PINS", Path("/nowhere"))
    remedy = optional_part(part, "traces").remedy
    assert [each for each in told if each not in remedy] == []


def test_redis_is_examined_and_its_password_never_shown(own_redis: RedisServer, data: Path, tmp_path: Path) -> None:
    server = own_redis
    settings = replace(
        SETTINGS, edge=replace(SETTINGS.edge, redis_url="secret:redis"), secrets={"redis": "env:REDIS_ADDRESS"}
    )
    variables = {"REDIS_ADDRESS": server.url}
    server.start()
    answering = found(ServingPart.EDGE, settings, tmp_path, environment=variables)
    assert not problems(answering, "redis", "clock")
    server.ask("CONFIG", "SET", "maxmemory", "1mb")
    full = found(ServingPart.EDGE, settings, tmp_path, environment=variables)
    assert problems(full, "redis memory")
    wrong = found(
        ServingPart.EDGE, settings, tmp_path, environment={"REDIS_ADDRESS": server.url.replace(PASSWORD, "wrong")}
    )
    (refusal,) = problems(wrong, "redis")
    assert (refusal.outcome, "refuses the user or password" in refusal.message) == (Outcome.FAILED, True)
    server.stop()
    down = found(ServingPart.SERVE, settings, data, environment=variables)
    assert problems(down, "redis")
    assert PASSWORD not in repr([answering, full, wrong, down])


def test_postgresql_is_examined_and_its_password_never_shown(postgresql_server: Postgresql, tmp_path: Path) -> None:
    with postgresql_server.database() as url:
        settings = replace(SETTINGS, backend=replace(SETTINGS.backend, database="env:WORKFLOWS"))
        checks = found(ServingPart.WORKER, settings, tmp_path, environment={"WORKFLOWS": url})
        assert not problems(checks, "database", "schema", "clock", "durability")
        assert any(check.name == "database" and check.outcome is Outcome.OK for check in checks)
        for part, engine, connections in (
            (ServingPart.SERVE, "local", 19),
            (ServingPart.BACKEND, "dbos", 19),
            (ServingPart.WORKER, "dbos", 39),
        ):
            used = replace(settings, runtime=RuntimeSection(engine=engine))  # type: ignore[arg-type]  # one of the two
            told = check_postgresql(ExaminedPart(part, used, tmp_path, {"WORKFLOWS": url}))
            assert any(f"takes up to {connections}." in check.message for check in told)
    away = "postgresql://user:sesame-sesame@127.0.0.1:1/workflows"
    checks = found(ServingPart.WORKER, settings, tmp_path, environment={"WORKFLOWS": away})
    assert problems(checks, "database")
    assert "sesame-sesame" not in repr(checks)


def test_connections_that_the_part_has_already_are_not_counted_again(
    postgresql_server: Postgresql, tmp_path: Path
) -> None:
    with postgresql_server.database() as url, ExitStack() as opened:
        connections = [opened.enter_context(psycopg.connect(url, autocommit=True)) for _ in range(20)]
        row = connections[0].execute("SHOW max_connections").fetchone()
        assert row is not None
        most = int(row[0])

        def outcome(needed: int) -> Outcome:
            backend = replace(SETTINGS.backend, database="env:WORKFLOWS", database_connections=needed - 2)
            examined = ExaminedPart(
                ServingPart.BACKEND, replace(SETTINGS, backend=backend), tmp_path, {"WORKFLOWS": url}
            )
            return next(check.outcome for check in check_postgresql(examined) if check.name == "connections")

        # Three are kept for superusers.
        assert outcome(most - 3 - 10) is Outcome.OK
        assert outcome(most - 2) is Outcome.WARNING


def test_a_table_with_many_dead_rows_is_a_warning(postgresql_server: Postgresql, tmp_path: Path) -> None:
    with postgresql_server.database() as url, psycopg.connect(url, autocommit=True) as database:
        examined = ExaminedPart(
            ServingPart.BACKEND,
            replace(SETTINGS, backend=replace(SETTINGS.backend, database="env:WORKFLOWS")),
            tmp_path,
            {"WORKFLOWS": url},
        )

        def space() -> list[Finding]:
            return [check for check in check_postgresql(examined) if check.name == "database space"]

        assert [check.outcome for check in space()] == [Outcome.OK]
        database.execute("CREATE TABLE crowded (number INTEGER) WITH (autovacuum_enabled = false)")
        database.execute("INSERT INTO crowded SELECT generate_series(1, 30000)")
        database.execute("DELETE FROM crowded WHERE number > 10000")
        # The server reports its counts at intervals.
        until(lambda: space()[0].outcome is Outcome.WARNING, "the dead rows to be counted")
        assert space()[0].message == "Table public.crowded has 20,000 dead rows beside 10,000 live ones."


def test_a_bucket_is_examined_and_left_as_it_is(s3_server: S3Server, tmp_path: Path) -> None:
    objects = Objects(store="s3", bucket="workflows", endpoint_url=s3_server.url)
    settings = replace(SETTINGS, objects=objects)
    (missing,) = problems(found(ServingPart.WORKER, settings, tmp_path), "objects")
    assert "Make the bucket" in missing.remedy
    s3_server.fill("workflows", {"runs/run_a/out_1": b"1"})
    for write_probe in (False, True):
        assert not problems(
            found(ServingPart.WORKER, settings, tmp_path, write_probe=write_probe), "objects", "lifecycle"
        )
        (stored,) = s3_server.s3.list_objects_v2(Bucket="workflows")["Contents"]
        assert stored["Key"] == "runs/run_a/out_1"
    rule = {"ID": "old", "Status": "Enabled", "Filter": {"Prefix": ""}, "Expiration": {"Days": 30}}
    s3_server.s3.put_bucket_lifecycle_configuration(Bucket="workflows", LifecycleConfiguration={"Rules": [rule]})
    assert problems(found(ServingPart.WORKER, settings, tmp_path), "lifecycle")


def test_a_clock_that_is_far_from_another_is_a_warning() -> None:
    assert clock("Redis", time.time()).outcome is Outcome.OK
    assert "ahead of" in clock("Redis", time.time() - 2 * FAR_SECONDS).message
    assert "behind" in clock("Redis", time.time() + 2 * FAR_SECONDS).message
