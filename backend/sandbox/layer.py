"""What a layer is, and what layers share: launches and step folders."""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal

from backend.sandbox.limits import Limits

CHECK_SECONDS = 20
_SCRATCH = "step-"
CHECK_LIMITS = Limits(memory_mb=256, timeout_seconds=CHECK_SECONDS, workspace_mb=1)


class SandboxUnavailableError(Exception):
    """The sandbox that the settings ask for does not work on this machine."""


@dataclass(frozen=True)
class Layout:
    """Where the step finds its folders, as paths inside the sandbox."""

    workspace: str
    outputs: str
    inputs: str
    files: str
    temporary: str

    def environment(self) -> dict[str, str]:
        """The whole environment of the step: nothing of the service's own is passed on."""
        return {
            "PATH": "/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "HOME": self.workspace,
            "TMPDIR": self.temporary,
        }


@dataclass(frozen=True)
class Readable:
    """Folders of the host that a step may read and not write: the run's inputs, and files of other steps by step."""

    inputs: Path | None = None
    files: Mapping[str, Path] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self.inputs is not None or bool(self.files)


@dataclass(frozen=True)
class Launch:
    """A command ready to be started, and what it will see."""

    argv: Sequence[str]
    environment: Mapping[str, str]
    layout: Layout
    processes: int | None = None
    """The most processes and threads of the step, where the kernel can count the step's own; else no such bound."""
    scratch: Path | None = None
    """A folder on the host that holds all that the step writes, and is removed once the step is dead."""
    fds: tuple[int, ...] = ()
    """Files that the command needs beside the runner's, closed here once it has been started."""
    afterwards: Callable[[], None] | None = None
    """Gives back what the step had to itself, once it is dead."""

    def started(self) -> None:
        """Close the files that were only for the command."""
        for fd in self.fds:
            os.close(fd)

    def discard(self) -> None:
        """Remove what was made on the host for this launch."""
        if self.scratch is not None:
            _remove(self.scratch)
        if self.afterwards is not None:
            self.afterwards()


class Layer(ABC):
    """One way of keeping a step apart. Each is complete: layers are chosen between, never combined."""

    name: ClassVar[str]
    guarded: ClassVar[Literal["namespace", "guard"] | None]
    """What holds all that a step starts: a process namespace, a guard that outlives the step, or nothing.

    A namespace's first process is told on the link, as bubblewrap does; a guard ends everything when the link ends.
    """

    def make_readable(self, readable: Readable) -> None:  # noqa: B027 - most layers need nothing of it
        """Let every step's user read these folders, which takes long where they hold many files. Raises OSError."""

    @abstractmethod
    def launch(
        self, command: Sequence[str], limits: Limits, readable: Readable, fds: Sequence[int], link: int
    ) -> Launch:
        """Wrap `command` so that it runs apart, with `readable` in it and a workspace of `limits.workspace_mb`.

        `fds` are the open files that the command inherits; `link` is the layer's end of its link to the worker.
        """

    @abstractmethod
    def check(self) -> None:
        """Start the interpreter in this layer, and raise SandboxUnavailableError when that fails."""


def try_out(layer: Layer, command: Sequence[str]) -> str | None:
    """Run a command in the layer: None when it succeeds, else what it or the system says."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        launch = layer.launch(command, CHECK_LIMITS, Readable(), (), theirs.fileno())
        try:
            tried = subprocess.run(
                launch.argv,
                env=launch.environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=CHECK_SECONDS,
                check=False,
                pass_fds=(theirs.fileno(), *launch.fds),
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        finally:
            launch.started()
            launch.discard()
    return None if tried.returncode == 0 else tried.stderr.decode(errors="replace").strip()[:500] or "it failed"


def scratch_layout(readable: Readable, user: int | None = None) -> tuple[Path, Layout]:
    """A new folder on the host for all that a step of this user writes, and the places in it."""
    scratch = Path(tempfile.mkdtemp(prefix=f"{_SCRATCH}{os.getpid()}-")).resolve()
    layout = Layout(
        workspace=str(scratch / "workspace"),
        outputs=str(scratch / "outputs"),
        inputs=str(readable.inputs or scratch / "inputs"),
        files=str(scratch / "files"),
        temporary=str(scratch / "tmp"),
    )
    try:
        for folder in ("workspace", "outputs", "inputs", "files", "tmp"):
            (scratch / folder).mkdir()
            if user is not None:
                os.chown(scratch / folder, user, user)
        for step, files in readable.files.items():
            (scratch / "files" / step).symlink_to(files.resolve())
    except BaseException:
        _remove(scratch)
        raise
    return scratch, layout


def remove_leftovers() -> None:
    """Remove the folders of steps whose worker was killed before a guard could watch over them."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_SCRATCH}[0-9]*-*"):
        worker = folder.name.removeprefix(_SCRATCH).partition("-")[0]
        # A guard may still be removing it.
        with contextlib.suppress(FileNotFoundError):
            if worker.isdecimal() and not Path(f"/proc/{worker}").exists() and folder.lstat().st_uid == os.geteuid():
                _remove(folder)


def _remove(folder: Path) -> None:
    # Not by shutil: it cannot go as deep as a step can.
    subprocess.run(["/bin/rm", "-rf", "--", folder], stderr=subprocess.DEVNULL, check=False)


def require(program: str) -> str:
    """The full path of a program that a layer cannot do without."""
    found = shutil.which(program)
    if found is None:
        raise SandboxUnavailableError(f"{program} is not installed")
    return os.path.realpath(found)
