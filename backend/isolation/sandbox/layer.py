"""Base class of layers, with the launches, folders and user ids of steps that they share."""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from backend.isolation.sandbox.limits import Limits, StepPackages, StepRoot

SETUID, SETGID, SETPCAP, DAC_READ_SEARCH, SYS_ADMIN = 7, 6, 8, 2, 21
"""Numbers of capabilities."""

STEPS_PER_WORKER: Final = 512
_FIRST: Final = 2**30
"""The first user id for steps; distributions and directory services assign far lower ones."""


class UserIds:
    """Allocator of unused user ids, one for each running step of this worker. Thread-safe.

    A step with such an id owns its own files only, can signal its own processes only, and has its own count for
    RLIMIT_NPROC, from which the kernel exempts root.
    """

    def __init__(self) -> None:
        self._first = _FIRST + os.getpid() * STEPS_PER_WORKER
        self._lock = threading.Lock()
        self._taken: set[int] = set()

    @property
    def range(self) -> tuple[int, int]:
        """The first of this worker's user ids, and their number."""
        return self._first, STEPS_PER_WORKER

    @property
    def taken(self) -> frozenset[int]:
        """The user ids in use."""
        with self._lock:
            return frozenset(self._taken)

    def take(self) -> int:
        """Allocates a user id; raises OSError if all are in use."""
        with self._lock:
            for user in range(self._first, self._first + STEPS_PER_WORKER):
                if user not in self._taken:
                    self._taken.add(user)
                    return user
        raise OSError(f"this worker already runs {STEPS_PER_WORKER} steps")

    def give_back(self, user: int) -> None:
        """Releases the id of a step whose processes are all dead."""
        with self._lock:
            self._taken.discard(user)


def can_change_users(*capabilities: int) -> bool:
    """Returns whether this process is root, may change to the user ids of steps, and has the capabilities."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
    effective = int(status["CapEff"], 16)
    wanted = (SETUID, SETGID, SETPCAP, *capabilities)
    return os.geteuid() == 0 and _mapped(_FIRST) and all(effective >> capability & 1 for capability in wanted)


def make_readable_for_all(folder: Path) -> None:
    """Makes `folder` and its content readable for all users with access to the folders above. Raises OSError."""
    for path in _tree(folder):
        mode = path.lstat().st_mode
        wanted = mode | (0o555 if path.is_dir() else 0o444)
        if wanted != mode:
            path.chmod(wanted & 0o7777)


def _tree(folder: Path) -> Iterable[Path]:
    yield folder
    for parent, folders, files in os.walk(folder):
        yield from (path for name in (*folders, *files) if not (path := Path(parent, name)).is_symlink())


def _mapped(user: int) -> bool:
    """Returns whether 2**31 user ids from `user` on exist here: 512 for each possible process id."""
    for line in Path("/proc/self/uid_map").read_text().splitlines():
        first, _, count = map(int, line.split())
        if first <= user and user + 2**31 <= first + count:
            return True
    return False


CHECK_SECONDS = 20
_SCRATCH = "step-"
# On a machine with many cores, the memory that OpenBLAS reserves for a thread of each exceeds what a step may have.
_MOST_BLAS_THREADS = 8
CHECK_LIMITS = Limits(memory_mb=256, timeout_seconds=CHECK_SECONDS, workspace_mb=1)


class SandboxUnavailableError(Exception):
    """The sandbox of the settings does not work on this machine."""


@dataclass(frozen=True)
class Layout:
    """Paths of the step's folders inside the sandbox."""

    workspace: str
    outputs: str
    shared: str
    inputs: str
    files: str
    temporary: str
    code: str
    packages: str | None = None
    root: Mapping[str, str] = field(default_factory=dict)
    """Variables by which the step finds the programs and files of its root."""

    def environment(self) -> dict[str, str]:
        """Returns all environment variables of the step; it inherits none of the service."""
        variables = {
            "PATH": "/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "HOME": self.workspace,
            "TMPDIR": self.temporary,
        }
        if self.packages is not None:
            # For interpreters that the step starts; its own is isolated from variables.
            variables["PYTHONPATH"] = self.packages
            variables["OPENBLAS_NUM_THREADS"] = str(min(os.cpu_count() or 1, _MOST_BLAS_THREADS))
        return {**variables, **self.root}


@dataclass(frozen=True)
class Readable:
    """Folders of the host that a step may only read: the inputs of the run, and the files of other steps by step.

    `needs` names all steps that the step needs, also those without files.
    """

    inputs: Path | None = None
    files: Mapping[str, Path] = field(default_factory=dict)
    needs: Collection[str] = ()
    view: Path | None = None
    """Folder with the files, and an empty folder for each need without files, for layers that mount nothing."""

    def __bool__(self) -> bool:
        return self.inputs is not None or bool(self.files)


@dataclass(frozen=True)
class Launch:
    """A command ready to be started, with its environment and resources."""

    argv: Sequence[str]
    environment: Mapping[str, str]
    layout: Layout
    processes: int | None = None
    """Largest number of processes and threads, if the kernel can count those of the step; else None."""
    scratch: Path | None = None
    """Folder on the host with all files that the step writes; removed once the step is dead."""
    view: Path | None = None
    """Folder on the host with links to files of other steps; removed once the step is dead."""
    fds: tuple[int, ...] = ()
    """Descriptors that only the command needs; closed in the worker once the command is started."""
    afterwards: Callable[[], None] | None = None
    """Releases the resources of the step, once it is dead."""

    def started(self) -> None:
        """Closes the descriptors that only the command needs."""
        for fd in self.fds:
            os.close(fd)

    def discard(self) -> None:
        """Removes the folder and releases the resources of this launch."""
        for folder in (self.scratch, self.view):
            if folder is not None:
                _remove(folder)
        if self.afterwards is not None:
            self.afterwards()


@dataclass(frozen=True)
class TemplateLaunch:
    """Command under which a template starts, with the options for the template's program."""

    launch: Launch
    options: Mapping[str, Any]
    take_user: Callable[[], int]
    """Allocates the user of a step; raises OSError if there is none left."""
    give_back_user: Callable[[int], None]


class Layer(ABC):
    """A way of isolating a step. Each layer is complete; they are never combined."""

    name: ClassVar[str]
    guarded: ClassVar[Literal["namespace", "guard"] | None]
    """Control over all processes that a step starts: a process namespace, a guard that outlives the step, or nothing.

    Bubblewrap reports the first process of its namespace on the link; a guard kills everything when the link ends.
    """

    def make_readable(self, readable: Readable) -> Readable:
        """Returns the folders with a view of the files, which takes long for many files. Raises OSError.

        The view consists of folders and hard links, for agents walk through their files and follow no symbolic link
        to a folder. It is in the folder of the run, so the end of the run removes it if no launch does.
        """
        if not readable.files:
            return readable
        view = Path(tempfile.mkdtemp(prefix=".", dir=next(iter(readable.files.values())).resolve().parent))
        try:
            for need in {*readable.needs, *readable.files}:
                if need in readable.files:
                    shutil.copytree(readable.files[need], view / need, copy_function=_link)
                else:
                    (view / need).mkdir()
        except BaseException:
            _remove(view)
            raise
        return replace(readable, view=view)

    def place_of(self, packages: StepPackages) -> str:
        """Returns the path of an environment's packages inside the sandbox."""
        return str(packages.folder)

    def command_of(self, python: Path, limits: Limits) -> Sequence[str]:  # noqa: ARG002 - one for all without mounts
        """Returns the command, without options, that starts the machine's interpreter inside the sandbox."""
        return [str(python)]

    @abstractmethod
    def check_root(self, root: StepRoot) -> None:
        """Raises SandboxUnavailableError if steps with this root cannot run in this layer; may take half a second."""

    @abstractmethod
    def launch(
        self, command: Sequence[str], limits: Limits, readable: Readable, fds: Sequence[int], link: int
    ) -> Launch:
        """Wraps `command` so that it runs isolated, with `readable` and a workspace of `limits.workspace_mb`.

        `fds` are the descriptors that the command inherits; `link` is the layer's end of its socket to the worker.
        """

    def launch_template(self, limits: Limits) -> TemplateLaunch | None:  # noqa: ARG002 - no layer but one has any
        """Returns how to start a template from which steps of these limits are forked; None if there can be none."""
        return None

    @abstractmethod
    def check(self) -> None:
        """Starts the interpreter in this layer; raises SandboxUnavailableError if that fails."""


def try_out(layer: Layer, command: Sequence[str]) -> str | None:
    """Runs a command in the layer; returns None if it succeeds, else its error message or the system's."""
    worker_end, step_end = socket.socketpair()
    with worker_end, step_end:
        launch = layer.launch(command, CHECK_LIMITS, Readable(), (), step_end.fileno())
        try:
            tried = subprocess.run(
                launch.argv,
                env=launch.environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=CHECK_SECONDS,
                check=False,
                pass_fds=(step_end.fileno(), *launch.fds),
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        finally:
            launch.started()
            launch.discard()
    return None if tried.returncode == 0 else tried.stderr.decode(errors="replace").strip()[:500] or "it failed"


def scratch_layout(
    readable: Readable, user: int | None = None, packages: str | None = None, root: Mapping[str, str] | None = None
) -> tuple[Path, Layout]:
    """Creates a folder on the host for all files that a step of this user writes; returns it with its layout."""
    scratch = Path(tempfile.mkdtemp(prefix=f"{_SCRATCH}{os.getpid()}-")).resolve()
    layout = Layout(
        workspace=str(scratch / "workspace"),
        outputs=str(scratch / "outputs"),
        shared=str(scratch / "shared"),
        inputs=str(readable.inputs or scratch / "inputs"),
        files=str(readable.view or scratch / "files"),
        temporary=str(scratch / "tmp"),
        code=str(scratch / "code"),
        packages=packages,
        root=root or {},
    )
    try:
        for folder in ("workspace", "outputs", "shared", "inputs", "files", "tmp", "code"):
            (scratch / folder).mkdir()
            if user is not None:
                os.chown(scratch / folder, user, user)
    except BaseException:
        _remove(scratch)
        raise
    return scratch, layout


def remove_leftovers() -> None:
    """Removes folders of steps whose worker was killed while they had no guard."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_SCRATCH}[0-9]*-*"):
        worker = folder.name.removeprefix(_SCRATCH).partition("-")[0]
        # A guard may be removing the folder at the same time.
        with contextlib.suppress(FileNotFoundError):
            if worker.isdecimal() and not Path(f"/proc/{worker}").exists() and folder.lstat().st_uid == os.geteuid():
                _remove(folder)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # A file system without hard links.
        shutil.copy2(source, target)


def _remove(folder: Path) -> None:
    # By `rm`, because a step can nest folders deeper than shutil can remove.
    subprocess.run(["/bin/rm", "-rf", "--", folder], stderr=subprocess.DEVNULL, check=False)


def require(program: str) -> str:
    """Returns the full path of a program; raises SandboxUnavailableError if it is not installed."""
    found = shutil.which(program)
    if found is None:
        raise SandboxUnavailableError(f"{program} is not installed")
    return os.path.realpath(found)
