"""What a hostile step may try, in every isolating layer that works on this machine.

The attempts do no harm where a layer fails to hold: they read, or write to what the test itself has made.
"""

import asyncio
import contextlib
import os
import platform
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backend.runtime.agents import Limits, StepFailed, run_python_step
from tests.unit.backend.runtime.sandbox.layers import counts_processes
from tests.unit.backend.runtime.sandbox.steps import Steps, marker, running

REPOSITORY = Path(__file__).resolve().parents[5]
SMALL = Limits(memory_mb=256, timeout_seconds=60, workspace_mb=8)

HOST_FILES = (
    *("/etc/shadow", "/etc/passwd", "/root/.bashrc", "/proc/version", "/sys/kernel/mm", "/home", "/var/log", "/run"),
    *("/dev", "/dev/shm"),  # noqa: S108 - a step must not read it
)

ATTEMPT = """
import os
def attempt(what, *arguments, **named):
    try:
        what(*arguments, **named)
    except Exception as error:
        return type(error).__name__
"""


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A file of another run, or of the service: anybody may read and write it, and reach it."""
    folder = tmp_path / "another-run"
    folder.mkdir()
    file = folder / "outputs.csv"
    file.write_text("secret")
    file.chmod(0o666)
    for parent in (folder, *list(folder.parents)[:3]):
        if parent.stat().st_uid == os.getuid() and parent.is_relative_to(tmp_path.parent.parent):
            parent.chmod(parent.stat().st_mode | 0o755)
    return file


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process outside of the step."""
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


@pytest.mark.parametrize(
    "path",
    [*HOST_FILES, str(REPOSITORY / "pyproject.toml"), str(REPOSITORY)],
)
def test_the_hosts_files_cannot_be_read(confined: Steps, path: str) -> None:
    """Nor listed; what namespaces put in their place holds nothing of the host."""
    if not os.access(path, os.R_OK):
        path = str(REPOSITORY / "README.md")
    code = """
    import os
    def run(context):
        path = context.parameters["path"]
        try:
            return sorted(os.listdir(path)) if os.path.isdir(path) else open(path, "rb").read().hex()
        except OSError as error:
            return None
    """
    seen = confined.run(code, parameters={"path": path})
    if confined.sandbox.layer.name == "bwrap" and path in {"/dev", "/dev/shm", "/proc/version"}:  # noqa: S108 - the same
        names = {"null", "zero", "full", "random", "urandom", "shm", "fd"}
        assert path == "/proc/version" or not seen or set(seen) <= names
    else:
        assert seen is None


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
    """Whatever the calls say."""
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
    """Also where the folders above are closed to other users, as the data folder is."""
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


def test_processes_outside_cannot_be_touched(confined: Steps, sleeper: "subprocess.Popen[bytes]") -> None:
    tried = confined.run(
        ATTEMPT
        + """
import ctypes, resource, signal
libc = ctypes.CDLL(None, use_errno=True)
def check(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "failed")
def run(context):
    tried = {}
    for pid in {context.parameters["pid"], os.getppid()} - {1}:
        tried |= {
            f"{pid} signal": attempt(os.kill, pid, signal.SIGUSR1),
            f"{pid} trace": attempt(lambda: check(libc.ptrace(16, pid, None, None))),
            f"{pid} memory": attempt(lambda: check(libc.process_vm_readv(pid, None, 0, None, 0, 0))),
            f"{pid} limit": attempt(resource.prlimit, pid, resource.RLIMIT_CORE, (0, 0)),
            f"{pid} priority": attempt(os.setpriority, os.PRIO_PROCESS, pid, 19),
            f"{pid} processors": attempt(os.sched_setaffinity, pid, {0}),
            f"{pid} files": attempt(os.listdir, f"/proc/{pid}/fd"),
            f"{pid} memory file": attempt(open, f"/proc/{pid}/mem", "rb"),
        }
    return tried
""",
        parameters={"pid": sleeper.pid},
    )
    assert [name for name, refused in tried.items() if refused is None] == []
    assert sleeper.poll() is None


def test_everybody_cannot_be_signalled_at_once(confined: Steps, sleeper: "subprocess.Popen[bytes]") -> None:
    """Signal 0 asks only; where it found nobody but the step, the real one harms nobody else."""
    found = confined.run(
        """
        import os, signal
        def run(context):
            found = []
            for target in (-1, -context.parameters["pid"], context.parameters["pid"]):
                try:
                    os.kill(target, 0)
                except OSError:
                    continue
                found.append(target)
            return found
        """,
        parameters={"pid": sleeper.pid},
    )
    assert set(found) <= {-1}
    assert sleeper.poll() is None


@pytest.mark.parametrize("kind", ["tcp", "udp", "abstract", "path", "datagram"])
@pytest.mark.parametrize("network", ["none", "full"])
def test_services_of_the_machine_are_out_of_reach(confined: Steps, kind: str, network: str, tmp_path: Path) -> None:
    """With the network only those on the internet's protocols can be reached, never a Unix socket."""
    internet = kind in {"tcp", "udp"}
    stream = kind in {"tcp", "abstract", "path"}
    name: Any = {
        "tcp": ("127.0.0.1", 0),
        "udp": ("127.0.0.1", 0),
        "abstract": f"\0step-{marker()}",
        "path": os.path.relpath(tmp_path / "s"),
        "datagram": f"\0step-{marker()}",
    }[kind]
    family = socket.AF_INET if internet else socket.AF_UNIX
    with socket.socket(family, socket.SOCK_STREAM if stream else socket.SOCK_DGRAM) as listener:
        listener.bind(name)
        if stream:
            listener.listen()
        listener.settimeout(0.2)
        address = listener.getsockname()
        if kind == "path":
            address = str(tmp_path / "s")
            Path(address).chmod(0o777)
        confined.run(
            """
            import socket
            def reach(make, address):
                try:
                    client = make()
                    client.settimeout(2)
                    client.connect(tuple(address) if isinstance(address, list) else address)
                    client.send(b"x")
                except OSError:
                    pass
            def run(context):
                p = context.parameters
                family = socket.AF_INET if p["internet"] else socket.AF_UNIX
                kind = socket.SOCK_STREAM if p["stream"] else socket.SOCK_DGRAM
                address = p["address"].replace("@", chr(0)) if isinstance(p["address"], str) else p["address"]
                reach(lambda: socket.socket(family, kind), address)
                if not p["internet"]:
                    reach(lambda: socket.socketpair(socket.AF_UNIX, kind)[0], address)
            """,
            parameters={
                "address": list(address) if internet else os.fsdecode(address).replace("\0", "@"),
                "internet": internet,
                "stream": stream,
            },
            limits=Limits(1024, 60, 16, network),  # type: ignore[arg-type]
        )
        try:
            if stream:
                listener.accept()[0].close()
            else:
                listener.recv(10)
            reached = True
        except TimeoutError:
            reached = False
    assert reached == (internet and network == "full")


def test_a_step_with_the_network_can_name_and_trust_other_machines(confined: Steps) -> None:
    """Looks at no machine but this one."""
    names, certificates = confined.run(
        """
        import os, socket, ssl
        def run(context):
            return [bool(socket.getaddrinfo("localhost", 80)), bool(ssl.create_default_context().get_ca_certs())
                    or any(os.access(f"/etc/ssl/{name}", os.R_OK) for name in ("certs", "cert.pem"))
                    or not context.parameters["certificates"]]
        """,
        parameters={"certificates": Path("/etc/ssl/certs").exists()},
        limits=Limits(1024, 60, 16, "full"),
    )
    assert names
    assert certificates


def test_private_keys_beside_the_certificates_stay_hidden(confined: Steps) -> None:
    opened = confined.run(
        ATTEMPT
        + "\ndef run(context): return [attempt(os.listdir, p) for p in ('/etc/ssl/private', '/etc/pki/private')]",
        limits=Limits(1024, 60, 16, "full"),
    )
    assert None not in opened


BOMB = """
import os, signal, time
def run(context):
    started = 0
    while started < 700:
        try:
            if os.fork() == 0:
                signal.alarm(30)
                os.execv("/usr/bin/sleep", ["sleep", context.parameters["marker"]])
        except BlockingIOError:
            break
        started += 1
    context.progress("full", started=started)
    time.sleep(1 if started < 256 else 15)
    return started
"""


def test_a_fork_bomb_is_bounded(confined: Steps) -> None:
    """By the kernel where it can count the step's own processes, else by the watch."""
    sleeper = marker()
    if counts_processes(confined.sandbox.layer):
        assert confined.run(BOMB, parameters={"marker": sleeper}) < 256
    else:
        with pytest.raises(StepFailed) as failed:
            confined.run(BOMB, parameters={"marker": sleeper})
        assert failed.value.type == "ProcessLimit"
    assert running(sleeper) == []


RESTLESS = """
import ctypes, os, time
def run(context):
    ctypes.CDLL(None).prctl(15, context.parameters["name"].encode(), 0, 0, 0)
    context.progress("started")
    ends = time.monotonic() + 20
    first = os.getpid()
    while time.monotonic() < ends:
        try:
            if os.getpid() == first:
                os.fork()
            if os.fork() != 0 and os.getpid() != first:
                os._exit(0)
            os.setsid()
        except OSError:
            time.sleep(0.001 if os.getpid() == first else 0)
"""


def test_processes_that_never_stand_still_are_all_killed(confined: Steps) -> None:
    """Each is gone before it can be looked at, and leaves a child in a session of its own."""
    name = f"restless-{os.getpid()}"
    seen: list[str] = []
    with pytest.raises(StepFailed, match=r"longer than its environment's 2 seconds|more than 256 processes"):
        asyncio.run(
            run_python_step(
                confined.sandbox,
                confined.request(RESTLESS, parameters={"name": name}, limits=Limits(256, 2, 16)),
                lambda *_: seen.extend(_named(name)),
            )
        )
    assert seen != []
    assert _named(name) == []


def _named(name: str) -> list[str]:
    """The processes of the whole machine that call themselves so."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdecimal() and (entry / "comm").read_text().strip() == name:
                found.append(entry.name)
    return found


@pytest.mark.parametrize(
    "take",
    [
        "bytearray(400 * MIB)",
        "[forked(lambda: fill(60)) for _ in range(8)]",
        "forked(lambda: forked(lambda: fill(200))), fill(150)",
        "[forked(lambda: shared(60)) for _ in range(8)]",
    ],
    ids=["one process", "many children", "generations", "shared"],
)
def test_memory_is_bounded_over_all_processes(confined: Steps, take: str) -> None:
    with pytest.raises(StepFailed) as failed:
        confined.run(
            f"""
            import mmap, os, signal, time
            MIB, held = 1024 * 1024, []
            def forked(work):
                if os.fork() == 0:
                    signal.alarm(20)
                    work()
                    time.sleep(20)
                    os._exit(0)
            def fill(count):
                held.append(bytearray(b"x") * (count * MIB))
            def shared(count):
                area = mmap.mmap(-1, count * MIB)
                held.append(area)
                for place in range(0, count * MIB, 4096):
                    area[place] = 1
            def run(context):
                {take}
                time.sleep(20)
            """,
            limits=SMALL,
        )
    assert failed.value.type == "MemoryLimit"


def test_memory_that_processes_share_counts_once(confined: Steps) -> None:
    assert (
        confined.run(
            """
            import os, time
            def run(context):
                held = bytearray(b"x") * (120 * 1024 * 1024)
                children = []
                for _ in range(4):
                    pid = os.fork()
                    if pid == 0:
                        time.sleep(1.5)
                        os._exit(0)
                    children.append(pid)
                return [os.waitpid(pid, 0)[1] for pid in children]
            """,
            limits=SMALL,
        )
        == [0] * 4
    )


def test_memory_that_belongs_to_no_process_cannot_be_had(confined: Steps) -> None:
    tried = confined.run(
        ATTEMPT
        + """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def check(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "failed")
def run(context):
    return [
        attempt(os.memfd_create, "memory"), attempt(lambda: check(libc.shmget(0, 4096, 0o1600))),
        attempt(lambda: check(libc.msgget(0, 0o1600))),
    ]
"""
    )
    assert None not in tried


@pytest.mark.parametrize(
    "fill",
    [
        "write('one', 40)",
        "[write(f'many-{n}', 1) for n in range(40)]",
        "[held.append(write(f'deleted-{n}', 1)) or os.unlink(f'{place}/deleted-{n}') for n in range(40)]",
        "[open(f'{place}/tiny-{n}', 'w').close() for n in range(6000)]",
        "[os.mkdir(f'{place}/folder-{n}') for n in range(6000)]",
        "sparse('sparse', 40)",
    ],
    ids=["one file", "many files", "deleted files", "tiny files", "folders", "beyond the end"],
)
@pytest.mark.parametrize("folder", ["workspace", "outputs", "temporary"])
def test_the_disk_is_bounded(confined: Steps, fill: str, folder: str) -> None:
    """40 MiB at most are tried with 8 allowed; what has been written is gone with the step."""
    with pytest.raises(StepFailed) as failed:
        confined.run(
            f"""
            import os, tempfile, time
            held = []
            def write(name, count):
                file = open(f"{{place}}/{{name}}", "wb", buffering=0)
                for _ in range(count):
                    file.write(bytes(1024 * 1024))
                return file
            def sparse(name, count):
                with open(f"{{place}}/{{name}}", "wb") as file:
                    file.truncate(count * 1024 * 1024)
            def run(context):
                global place
                place = {{"temporary": tempfile.gettempdir()}}.get("{folder}") or getattr(context, "{folder}", None)
                {fill}
                time.sleep(20)
            """,
            limits=SMALL,
        )
    assert failed.value.type == "WorkspaceLimit"


@pytest.mark.parametrize(("name", "depth"), [("d" * 200, 60), ("d", 1500)])
def test_files_too_deep_to_be_named_count_and_go(
    confined: Steps, name: str, depth: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The paths are longer than the kernel takes, or deeper than a recursive program goes."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    with pytest.raises(StepFailed) as failed:
        confined.run(
            """
            import os, time
            def run(context):
                os.chdir(context.workspace)
                for _ in range(context.parameters["depth"]):
                    os.mkdir(context.parameters["name"])
                    os.chdir(context.parameters["name"])
                for n in range(20):
                    with open(str(n), "wb") as file:
                        file.write(bytes(1024 * 1024))
                time.sleep(20)
            """,
            parameters={"name": name, "depth": depth},
            limits=SMALL,
        )
    assert failed.value.type == "WorkspaceLimit"
    assert list(scratch.iterdir()) == []


def test_other_places_for_files_are_closed_or_count(confined: Steps) -> None:
    written = confined.run(
        ATTEMPT
        + """
def run(context):
    places = ["/", "/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/run", "/home", "/root", "/usr/lib", "/inputs"]
    return [p for p in [*places, str(context.inputs)] if os.path.isdir(p) and attempt(open, f"{p}/step", "x") is None]
"""
    )
    allowed = {"/tmp", "/dev/shm"} if confined.sandbox.layer.name == "bwrap" else set()  # noqa: S108 - its own there
    assert set(written) <= allowed


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
                    if fd > 2 and stat.S_ISREG(mode) and not os.readlink(f"/proc/self/fd/{fd}").startswith("/memfd:"):
                        kinds[fd] = os.readlink(f"/proc/self/fd/{fd}")
                return list(kinds.values())
            """
        )
    assert kinds[:3] == ["c", "p", "p"]
    assert sorted(kinds[3:]) in (["-", "s"], ["s"])


SETTINGS = [
    "/proc/sys/kernel/printk_ratelimit",
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/vm/swappiness",
    "/proc/1/oom_score_adj",
    "/sys/kernel/mm/ksm/run",
    "/sys/fs/cgroup/cgroup.procs",
    "/dev/kmsg",
    "/dev/mem",
]


def test_the_kernels_settings_cannot_be_opened_for_writing(confined: Steps) -> None:
    """Opened and closed again; nothing is written."""
    opened = confined.run(
        """
        import os
        def run(context):
            opened = []
            for path in context.parameters["paths"]:
                try:
                    os.close(os.open(path, os.O_WRONLY))
                except OSError:
                    continue
                opened.append(path)
            return opened
        """,
        parameters={"paths": SETTINGS},
    )
    assert opened == []


CALLS = {
    "x86_64": "101 310 311 312 438 165 155 161 272 308 425 321 298 323 250 248 303 304 319 29 175 313 246 169 103 435",
    "aarch64": "117 270 271 272 438 40 41 51 97 268 425 280 241 282 219 217 264 265 279 194 105 273 104 142 116 435",
}


def test_dangerous_calls_are_refused_before_they_are_looked_at(confined: Steps) -> None:
    """All with empty arguments, which the kernel itself would call invalid."""
    answers = confined.run(
        """
        import ctypes, errno
        libc = ctypes.CDLL(None, use_errno=True)
        def run(context):
            answers = {}
            for call in context.parameters["calls"]:
                libc.syscall(call, *[ctypes.c_ulong(0)] * 6)
                answers[str(call)] = errno.errorcode.get(ctypes.get_errno())
            return answers
        """,
        parameters={"calls": [int(call) for call in CALLS[platform.machine()].split()]},
    )
    assert {call: answer for call, answer in answers.items() if answer not in {"EPERM", "ENOSYS"}} == {}


@pytest.mark.parametrize("flag", ["0x10000000", "0x00020000", "0x20000000", "0x40000000", "0x08000000", "0x80"])
def test_no_namespace_can_be_made(confined: Steps, flag: str) -> None:
    unshared, cloned = confined.run(
        f"""
        import ctypes, os, platform
        libc = ctypes.CDLL(None, use_errno=True)
        def run(context):
            unshared = libc.unshare({flag})
            clone = {{"x86_64": 56, "aarch64": 220}}[platform.machine()]
            cloned = -1 if {flag} == 0x80 else libc.syscall(clone, ctypes.c_ulong({flag} | 17), 0, 0, 0, 0)
            if cloned == 0:
                os._exit(0)
            return [unshared, cloned]
        """
    )
    assert (unshared, cloned) == (-1, -1)


def test_rights_cannot_be_gained(confined: Steps) -> None:
    """No program may raise them, no user id can be taken, and no capability is held but to read what is allowed."""
    no_new, becoming, held = confined.run(
        ATTEMPT
        + """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def run(context):
    header, data = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    libc.capget(header, data)
    others = {0, 1, 12345} - {os.getuid()}
    return [libc.prctl(39, 0, 0, 0, 0), [attempt(os.setuid, user) for user in others], list(data)]
"""
    )
    assert no_new == 1
    assert None not in becoming
    assert {mask & ~(1 << 2) for mask in held} == {0}
    if confined.sandbox.layer.name == "bwrap":
        assert set(held) == {0}


def test_steps_cannot_touch_each_other(confined: Steps, tmp_path: Path) -> None:
    """One waits with a file and a child; the other looks for both by all it can guess."""
    first = """
    import os, time
    def run(context):
        (context.workspace / "mine").write_text("kept")
        context.progress("here", pid=os.getpid(), folder=str(context.workspace))
        ends = time.monotonic() + 30
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
        waiting = asyncio.create_task(run_python_step(confined.sandbox, one, lambda _, data: seen.set_result(data)))
        told = await seen
        other = confined.request(second, parameters=told)
        tried = await run_python_step(confined.sandbox, other, confined.on_progress)
        (inputs / "go").touch()
        return tried.value, (await waiting).value

    tried, kept = asyncio.run(both())
    if confined.sandbox.layer.name != "bwrap":  # there the same path is a file of the other's own
        assert None not in tried
    assert kept == "kept"
