"""How much one step may use."""

import os
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from backend.settings import OutputLimits

MEBIBYTE = 1024 * 1024
PROCESSES = 256
"""The most processes and threads of a step."""

Network = Literal["none", "full"]


@dataclass(frozen=True)
class Limits:
    """What an execution environment allows one step (SPEC.md, Workflow and resource limits).

    A megabyte is 1,048,576 bytes. `memory_mb` bounds the address space of each process of the step, and the memory
    that all of them hold; `workspace_mb` bounds workspace, outputs and temporary files together. `network` is `none`,
    or `full` for the network as the machine has it.
    """

    memory_mb: int
    timeout_seconds: float
    workspace_mb: int
    network: Network = "none"
    outputs: OutputLimits = field(default_factory=OutputLimits)

    @property
    def memory_bytes(self) -> int:
        """The most memory that the step may hold."""
        return self.memory_mb * MEBIBYTE

    @property
    def workspace_bytes(self) -> int:
        """The most that workspace and outputs may hold together."""
        return self.workspace_mb * MEBIBYTE

    @property
    def fixed_at_start(self) -> tuple[int, Network]:
        """What cannot change once a sandbox has started; the rest comes with the request."""
        return self.workspace_mb, self.network

    def for_runner(self, *, processes: int | None) -> dict[str, Any]:
        """The limits that the runner sets on itself before it runs the agent.

        CPU time is a backstop behind the wall clock, which the worker keeps: every core busy for the whole time.
        """
        return {
            "memory_bytes": self.memory_bytes,
            "cpu_seconds": int(self.timeout_seconds) * (os.cpu_count() or 1) + 1,
            "file_bytes": self.workspace_bytes,
            "processes": processes,
            "outputs": asdict(self.outputs),
        }
