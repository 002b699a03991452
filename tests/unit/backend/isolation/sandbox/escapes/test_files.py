"""Attacks of a hostile step on files that are not its own."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from backend.runtime.agents import run_python_step
from tests.support.answers import value_in_process
from tests.unit.backend.isolation.sandbox.escapes.attempt import ATTEMPT
from tests.unit.backend.isolation.sandbox.steps import Steps

REPOSITORY = Path(__file__).resolve().parents[6]

HOST_FILES = (
    *("/etc/shadow", "/etc/passwd", "/proc/version", "/sys/kernel/mm", "/home", "/var/log", "/run"),
    *("/dev", "/dev/shm"),  # noqa: S108 - a step must not read it
    *(str(REPOSITORY), str(REPOSITORY / "pyproject.toml"), str(REPOSITORY / "README.md")),
)


def test_the_hosts_files_cannot_be_read(confined: Steps) -> None:
    """Nor listed; the folders that namespaces show instead hold nothing of the host."""
    paths = [path for path in HOST_FILES if os.access(path, os.R_OK)]
    code = """
    import os
    def look(path):
        try:
            return sorted(os.listdir(path)) if os.path.isdir(path) else open(path, "rb").read().hex()
        except OSError as error:
            return None
    def run(context):
        return {path: look(path) for path in context.parameters["paths"]}
    """
    seen = confined.run(code, parameters={"paths": paths})
    assert seen.keys() == set(paths)
    if confined.sandbox.layer.name == "bwrap":
        seen.pop("/proc/version", None)
        for folder in ("/dev", "/dev/shm"):  # noqa: S108 - a step must not read it
            assert set(seen.pop(folder, None) or ()) <= {"null", "zero", "full", "random", "urandom", "shm", "fd"}
    assert {path: found for path, found in seen.items() if found is not None} == {}


def test_another_runs_files_can_neither_be_read_nor_changed(confined: Steps, foreign: Path) -> None:
    before = foreign.stat()
    tried = confined.run(
        ATTEMPT
        + """
def run(context):
    path, beside = context.parameters["path"], context.parameters["path"] + ".new"
    mine = context.workspace / "link"
    os.symlink(path, context.workspace / "symbolic")
    return {
        "read": attempt(open, path),
        "list": attempt(os.listdir, os.path.dirname(path)),
        "append": attempt(open, path, "a"),
        "overwrite": attempt(open, path, "r+"),
        "truncate": attempt(os.truncate, path, 0),
        "truncate by opening": attempt(os.open, path, os.O_RDONLY | os.O_TRUNC),
        "create": attempt(open, beside, "x"),
        "make a folder": attempt(os.mkdir, beside),
        "remove": attempt(os.unlink, path),
        "rename": attempt(os.rename, path, beside),
        "move in": attempt(os.rename, path, mine),
        "hard link in": attempt(os.link, path, mine),
        "hard link out": attempt(os.link, context.workspace / "symbolic", beside, follow_symlinks=False),
        "read by symbolic link": attempt(open, context.workspace / "symbolic"),
        "read by this process's root": attempt(open, "/proc/self/root" + path),
        "read by the parent's root": attempt(open, f"/proc/{os.getppid()}/root" + path),
    }
""",
        parameters={"path": str(foreign)},
    )
    assert [name for name, refused in tried.items() if refused is None] == []
    assert foreign.read_text() == "secret"
    assert [path.name for path in foreign.parent.iterdir()] == ["outputs.csv"]
    assert foreign.stat().st_mtime_ns == before.st_mtime_ns


def test_mode_owner_and_times_of_foreign_files_stay(confined: Steps, foreign: Path) -> None:
    """Also if the calls report success."""
    before = foreign.stat()
    confined.run(
        ATTEMPT
        + """
def run(context):
    path = context.parameters["path"]
    for change in (
        lambda: os.chmod(path, 0o600), lambda: os.chown(path, 12345, 12345), lambda: os.utime(path, (1, 1)),
        lambda: os.utime(path), lambda: os.setxattr(path, "user.planted", b"x"),
    ):
        attempt(change)
""",
        parameters={"path": str(foreign)},
    )
    after = foreign.stat()
    assert (after.st_mode, after.st_uid, after.st_mtime_ns) == (before.st_mode, before.st_uid, before.st_mtime_ns)
    assert after.st_ctime_ns == before.st_ctime_ns


def test_inputs_can_be_read_and_not_changed(confined: Steps, tmp_path: Path) -> None:
    """Also if the folders above are closed to other users, as the data folder is."""
    inputs = tmp_path / "data" / "inputs"
    inputs.mkdir(parents=True)
    (tmp_path / "data").chmod(0o700)
    (inputs / "a.txt").write_text("alpha")
    (inputs / "a.txt").chmod(0o600)
    text, *tried = confined.run(
        ATTEMPT
        + """
def run(context):
    file = context.inputs / "a.txt"
    return [
        file.read_text(), attempt(open, file, "r+"), attempt(os.unlink, file), attempt(os.truncate, file, 0),
        attempt(os.open, file, os.O_RDONLY | os.O_TRUNC), attempt(os.mkdir, context.inputs / "new"),
        attempt(os.link, file, context.outputs / "a.txt"), attempt(os.rename, file, context.outputs / "a.txt"),
    ]
""",
        inputs=inputs,
    )
    assert text == "alpha"
    assert None not in tried
    assert (inputs / "a.txt").read_text() == "alpha"


def test_links_in_outputs_deliver_nothing_foreign(confined: Steps, foreign: Path) -> None:
    confined.run(
        """
        import os
        def run(context):
            path = context.parameters["path"]
            os.symlink(path, context.outputs / "symbolic")
            os.symlink(os.path.dirname(path), context.outputs / "folder")
            (context.outputs / "own").write_text("mine")
            os.link(context.outputs / "own", context.outputs / "hard")
        """,
        parameters={"path": str(foreign)},
    )
    assert confined.files() == {"own": b"mine", "hard": b"mine"}


def test_the_services_environment_cannot_be_read(confined: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKFLOW_API_TEST_PLANTED", "planted-secret")
    environment, read = confined.run(
        """
        import os
        def run(context):
            read = b""
            for pid in [1, "self", os.getppid(), *range(max(1, os.getpid() - 300), os.getpid())]:
                try:
                    read += open(f"/proc/{pid}/environ", "rb").read()
                except OSError:
                    pass
            return [dict(os.environ), read.decode().replace(chr(0), " ")]
        """
    )
    assert "planted-secret" not in read
    assert set(environment) <= {"PATH", "LANG", "TZ", "HOME", "TMPDIR", "PWD", "LC_CTYPE"}


def test_no_open_file_of_the_worker_is_handed_on(confined: Steps, foreign: Path) -> None:
    with foreign.open() as kept:
        os.set_inheritable(kept.fileno(), True)
        kinds = confined.run(
            """
            import os, stat
            def run(context):
                kinds = {}
                for fd in range(4096):
                    try:
                        mode = os.fstat(fd).st_mode
                    except OSError:
                        continue
                    kinds[fd] = stat.filemode(mode)[0]
                return list(kinds.values())
            """
        )
    assert kinds[:3] == ["c", "p", "p"]
    assert kinds[3:] == ["s"]


def test_steps_cannot_touch_each_other(confined: Steps, tmp_path: Path) -> None:
    """One step waits with a file and a child; the other searches for both by all paths and ids it can guess."""
    first = """
    import os, time
    def run(context):
        (context.workspace / "mine").write_text("kept")
        context.progress("here", pid=os.getpid(), folder=str(context.workspace))
        ends = time.monotonic() + 110
        while not (context.inputs / "go").exists() and time.monotonic() < ends:
            time.sleep(0.02)
        return (context.workspace / "mine").read_text()
    """
    second = (
        ATTEMPT
        + """
import signal
def run(context):
    folder, pid = context.parameters["folder"], context.parameters["pid"]
    path = f"{folder}/mine"
    tried = [attempt(open, path), attempt(open, path, "w"), attempt(os.unlink, path)]
    if pid != os.getpid():
        tried += [attempt(os.kill, pid, signal.SIGUSR1), attempt(open, f"/proc/{pid}/mem")]
    return tried
"""
    )
    inputs = tmp_path / "inputs"
    inputs.mkdir()

    async def both() -> tuple[Any, Any]:
        seen: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        one = confined.request(first, inputs=inputs)
        waiting = asyncio.create_task(
            run_python_step(confined.sandbox, one, lambda _, data: seen.set_result(data), value_in_process)
        )
        secrets = await seen
        other = confined.request(second, parameters=secrets)
        tried = await run_python_step(confined.sandbox, other, confined.on_progress, value_in_process)
        (inputs / "go").touch()
        return tried.value, (await waiting).value

    tried, kept = asyncio.run(both())
    if confined.sandbox.layer.name != "bwrap":  # there the same path is a file of the other's own
        assert None not in tried
    assert kept == "kept"
