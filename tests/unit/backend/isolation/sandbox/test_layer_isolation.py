import os
import socket
from pathlib import Path

import pytest

from backend.isolation.sandbox import interpreter
from backend.runtime.agents import Limits, StepFailed
from tests.unit.backend.isolation.sandbox.steps import LIMITS, Steps

REPOSITORY = Path(__file__).resolve().parents[5]


def test_host_files_are_not_there(isolated: Steps, tmp_path: Path) -> None:
    secret = tmp_path / "database"
    secret.write_text("secret")
    paths = [
        "/etc/shadow",
        "/etc/passwd",
        "/var/lib",
        "/home",
        "/sys",
        str(REPOSITORY),
        str(secret),
        str(isolated.root),
    ]
    seen = isolated.run(
        """
        import os
        def run(context):
            return [path for path in context.parameters["paths"] if os.path.lexists(path)]
        """,
        parameters={"paths": paths},
    )
    assert seen == []


def test_root_holds_only_what_the_step_needs(isolated: Steps) -> None:
    roots = isolated.run("import os\ndef run(context): return sorted(os.listdir('/'))")
    expected = {"bin", "dev", "etc", "inputs", "lib", "lib32", "lib64", "libx32", "proc", "sbin", "step", "tmp", "usr"}
    # The index of the host's fonts is below /var.
    assert set(roots) <= expected | {interpreter.BASE.parts[1], "var"}


def test_packages_of_the_host_are_hidden(isolated: Steps) -> None:
    folders = [str(folder) for folder in interpreter.hidden_folders()]
    assert folders
    listed = isolated.run(
        "import os\ndef run(context): return [os.listdir(folder) for folder in context.parameters['folders']]",
        parameters={"folders": folders},
    )
    assert listed == [[] for _ in folders]


def test_environment_of_the_service_is_hidden(isolated: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKFLOW_API_TEST_PLANTED", "planted-secret")
    environment, everything = isolated.run(
        """
        import glob, os
        def run(context):
            read = b""
            for path in glob.glob("/proc/*/environ"):
                try:
                    read += open(path, "rb").read()
                except PermissionError:
                    pass
            return [dict(os.environ), read.decode().split(chr(0))]
        """
    )
    assert not any("planted-secret" in entry for entry in everything)
    assert set(environment) <= {"PATH", "LANG", "TZ", "HOME", "TMPDIR", "PWD", "LC_CTYPE"}


def test_processes_of_the_host_are_hidden(isolated: Steps) -> None:
    seen = isolated.run(
        """
        import os
        def run(context):
            pids = [name for name in os.listdir("/proc") if name.isdecimal()]
            return [open(f"/proc/{pid}/cmdline").read().split(chr(0)) for pid in pids]
        """
    )
    assert len(seen) <= 2
    assert not any("pytest" in argument for command in seen for argument in command)


@pytest.mark.parametrize("family", ["tcp", "abstract"])
def test_network_of_the_host_is_out_of_reach(isolated: Steps, family: str) -> None:
    if family == "tcp":
        listener = socket.create_server(("127.0.0.1", 0))
    else:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(f"\0step-{os.getpid()}")
        listener.listen()
    with listener:
        refused = isolated.run(
            """
            import socket
            def run(context):
                address = context.parameters["address"]
                client = socket.socket(socket.AF_INET if isinstance(address, list) else socket.AF_UNIX)
                try:
                    client.connect(tuple(address) if isinstance(address, list) else address.replace("@", chr(0)))
                except OSError as error:
                    return type(error).__name__
            """,
            parameters={
                "address": list(listener.getsockname()) if family == "tcp" else f"@step-{os.getpid()}",
            },
        )
    assert refused in {"ConnectionRefusedError", "OSError"}


def test_nothing_but_the_workspace_is_writable(isolated: Steps) -> None:
    """Only tests the permission: a write would change the machine under test if the sandbox failed."""
    writable = isolated.run(
        """
        import os
        def run(context):
            found = []
            for top in ("/bin", "/dev", "/etc", "/inputs", "/proc/sys", "/proc/irq", "/proc/self", "/"):
                for folder, folders, files in os.walk(top):
                    found += [p for n in ["", *files] if os.access(p := os.path.join(folder, n), os.W_OK)]
                    folders[:] = [f for f in folders if not (folder == "/" and f in ("step", "proc", "usr", "dev"))]
            return [path for path in found if not path.startswith(("/proc/self/task", "/proc/self/fd"))]
        """
    )
    assert {path.rstrip("/") for path in writable} <= {
        f"/dev/{n}" for n in ("null", "zero", "full", "random", "urandom")
    }


@pytest.mark.parametrize(
    "path", ["/proc/sys/kernel/core_pattern", "/proc/sys/vm/overcommit_memory", "/proc/sysrq-trigger"]
)
def test_settings_of_the_kernel_cannot_be_written(isolated: Steps, path: str) -> None:
    """They belong to root, as the service may; only tests the permission, and never writes."""
    assert (
        isolated.run(
            "import os\ndef run(context): return os.access(context.parameters['path'], os.W_OK)",
            parameters={"path": path},
        )
        is False
    )


def test_step_has_no_capability_and_can_gain_none(isolated: Steps) -> None:
    status = isolated.run("def run(context): return open('/proc/self/status').read()")
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert {fields[name] for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert fields["NoNewPrivs"] == "1"


def test_step_can_make_no_user_namespace(isolated: Steps) -> None:
    tried = isolated.run(
        """
        import subprocess
        def run(context):
            return subprocess.run(["unshare", "--user", "true"]).returncode
        """
    )
    assert tried != 0


def test_inputs_are_readable_and_not_writable(isolated: Steps, tmp_path: Path) -> None:
    inputs = tmp_path / "inputs"
    (inputs / "documents").mkdir(parents=True)
    (inputs / "documents" / "a.txt").write_text("alpha")
    text, writable = isolated.run(
        """
        import os
        def run(context):
            file = context.inputs / "documents" / "a.txt"
            return [file.read_text(), [os.access(path, os.W_OK) for path in (file, context.inputs)]]
        """,
        inputs=inputs,
    )
    assert text == "alpha"
    assert writable == [False, False]


@pytest.mark.parametrize("folder", ["step/workspace", "step/outputs", "step", "tmp", "dev/shm"])
def test_every_writable_folder_counts_against_the_workspace(isolated: Steps, folder: str) -> None:
    with pytest.raises(StepFailed) as failed:
        isolated.run(
            """
            def run(context):
                for place in ("/step/workspace", context.parameters["folder"]):
                    with open(f"{place}/{len(place)}", "wb") as file:
                        file.write(bytes(3 * 1024 * 1024))
                        file.seek(5 * 1024 * 1024)
                        file.write(b"x")
                with open(context.parameters["folder"] + "/last", "wb") as file:
                    file.write(bytes(3 * 1024 * 1024))
            """,
            parameters={"folder": f"/{folder}"},
            limits=Limits(memory_mb=1024, timeout_seconds=60, workspace_mb=5),
        )
    assert failed.value.type == "WorkspaceLimit"


def test_steps_share_nothing(isolated: Steps) -> None:
    leave = "def run(context):\n for f in ('/tmp/x', '/dev/shm/x', '/step/x'): open(f, 'w').write('left')"
    isolated.run(leave)
    look = "import os\ndef run(context): return [f for f in ('/tmp/x', '/dev/shm/x', '/step/x') if os.path.exists(f)]"
    assert isolated.run(look) == []


def test_ordinary_programs_work(isolated: Steps) -> None:
    """Time zones, subprocesses, locks between processes and temporary files work."""
    done = isolated.run(
        """
        import datetime, multiprocessing, subprocess, tempfile, zoneinfo
        def run(context):
            zone = zoneinfo.ZoneInfo("Europe/Paris")
            with tempfile.TemporaryFile() as file, multiprocessing.Lock():
                file.write(b"x")
            hours = datetime.datetime(2026, 1, 1, tzinfo=zone).utcoffset().total_seconds() / 3600
            return [hours, subprocess.run(["sh", "-c", "echo hi | tr a-z A-Z"], capture_output=True).stdout.decode()]
        """
    )
    assert done == [1.0, "HI\n"]


def test_limits_of_each_process_are_set(isolated: Steps) -> None:
    limits = isolated.run(
        """
        import resource
        def run(context):
            return {name: list(resource.getrlimit(getattr(resource, "RLIMIT_" + name)))
                    for name in ("AS", "CPU", "FSIZE", "NOFILE", "CORE", "NPROC")}
        """
    )
    cpu = LIMITS.timeout_seconds * (os.cpu_count() or 1) + 1
    mebibyte = 1024 * 1024
    assert limits["AS"] == [LIMITS.memory_mb * mebibyte, (LIMITS.memory_mb + 64) * mebibyte]
    assert limits["CPU"] == [cpu, cpu + 5]
    assert limits["FSIZE"] == [LIMITS.workspace_bytes] * 2
    assert limits["CORE"] == [0, 0]
    assert limits["NPROC"] == [256, 256]
    assert limits["NOFILE"][1] <= 1024


def test_step_holds_no_other_file_of_the_worker(isolated: Steps) -> None:
    """Apart from its log, it holds its socket."""
    held = isolated.run(
        """
        import os
        def run(context):
            return [os.readlink(f"/proc/self/fd/{n}") for n in range(3, 1024) if os.path.exists(f"/proc/self/fd/{n}")]
        """
    )
    assert [name.partition(":")[0] for name in held] == ["socket"]
