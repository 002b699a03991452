import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from backend.runtime.sandbox.limits import Limits


class SandboxUnavailableError(Exception):
    """The sandbox that the settings ask for does not work on this machine."""


@dataclass(frozen=True)
class Layout:
    """Where the step finds its folders, as paths inside the sandbox."""

    workspace: str
    outputs: str
    inputs: str
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
class Launch:
    """A command ready to be started, and what it will see."""

    argv: Sequence[str]
    environment: Mapping[str, str]
    layout: Layout
    processes: int | None = None
    """The most processes and threads of the step, where the layer can count the step's own; else no bound."""
    scratch: Path | None = None
    """A folder on the host that is removed once the step is dead."""

    def discard(self) -> None:
        """Remove what was made on the host for this launch."""
        if self.scratch is not None:
            shutil.rmtree(self.scratch, ignore_errors=True)


class Layer(ABC):
    """One way of keeping a step apart. Each is complete: layers are chosen between, never combined."""

    name: ClassVar[str]
    namespaced: ClassVar[bool]
    """Whether a step's processes live in a namespace of their own, and die with its first one."""

    @abstractmethod
    def launch(self, command: Sequence[str], limits: Limits, inputs: Path | None, info_fd: int | None) -> Launch:
        """Wrap `command` so that it runs apart, with `inputs` readable and a workspace of `limits.workspace_mb`.

        A layer with a process namespace reports the id of its first process on `info_fd`, as bubblewrap does.
        """

    @abstractmethod
    def check(self) -> None:
        """Start the interpreter in this layer, and raise SandboxUnavailableError when that fails."""


def require(program: str) -> str:
    """The full path of a program that a layer cannot do without."""
    found = shutil.which(program)
    if found is None:
        raise SandboxUnavailableError(f"{program} is not installed")
    return os.path.realpath(found)
