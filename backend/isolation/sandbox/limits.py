"""Limits of the resources of a step."""

import os
from collections.abc import Hashable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from backend.settings import OutputLimits

MEBIBYTE = 1024 * 1024
CORES = os.cpu_count() or 1
PROCESSES = 256
"""Largest number of processes and threads of a step."""

Network = Literal["none", "full"]


@dataclass(frozen=True)
class StepPackages:
    """Folder of Python packages that a step may import from, and modules to import before the step is known."""

    folder: Path
    preload: tuple[str, ...] = ()


@dataclass(frozen=True)
class StepRoot:
    """System libraries and programs of a step: a root file system that was unpacked from an image.

    `links` is a folder of links into it, for layers that mount nothing (`root_links`). `c_library` is as `glibc 2.36`,
    `musl`, or empty if the root has none.
    """

    folder: Path
    links: Path
    digest: str
    c_library: str


@dataclass(frozen=True)
class Limits:
    """Limits that an execution environment sets for a step (contract 22.6).

    A megabyte is 1,048,576 bytes. `memory_mb` limits the address space of each process of the step, and the memory of
    all of them together; `workspace_mb` limits workspace, outputs and temporary files together. `network` is `none`, or
    `full` for the machine's network. `packages` are those of the environment, None for the standard library alone.
    `root` replaces the machine's programs and libraries.
    """

    memory_mb: int
    timeout_seconds: float
    workspace_mb: int
    network: Network = "none"
    outputs: OutputLimits = field(default_factory=OutputLimits)
    packages: StepPackages | None = None
    root: StepRoot | None = None

    @property
    def memory_bytes(self) -> int:
        """Bytes of memory of the step."""
        return self.memory_mb * MEBIBYTE

    @property
    def workspace_bytes(self) -> int:
        """Bytes of workspace, outputs and temporary files together."""
        return self.workspace_mb * MEBIBYTE

    @property
    def fixed_at_start(self) -> Hashable:
        """Limits that cannot change once a sandbox has started; the request sets the others."""
        return self.workspace_mb, self.of_template

    @property
    def of_template(self) -> Hashable:
        """Limits in which all steps that are forked from one template agree."""
        return self.network, self.packages, self.root, self.memory_mb if self.preloads else None

    @property
    def preloads(self) -> bool:
        """Returns whether code of packages runs before the step is known, and so must be limited from the start."""
        return self.packages is not None and bool(self.packages.preload)

    def for_runner(self, *, processes: int | None) -> dict[str, Any]:
        """Returns the limits that the runner sets on itself before it runs the agent.

        The worker limits the wall-clock time; the CPU time allowed is that of all cores during that time.
        """
        return {
            "memory_bytes": self.memory_bytes,
            "cpu_seconds": int(self.timeout_seconds) * CORES + 1,
            "file_bytes": self.workspace_bytes,
            "processes": processes,
            "outputs": asdict(self.outputs),
        }
