import os
from dataclasses import dataclass

MEBIBYTE = 1024 * 1024


@dataclass(frozen=True)
class Limits:
    """What an execution environment allows one step (SPEC.md, Workflow and resource limits).

    A megabyte is 1,048,576 bytes. `memory_mb` bounds the address space of each process of the step; `workspace_mb`
    bounds workspace and outputs together.
    """

    memory_mb: int
    timeout_seconds: float
    workspace_mb: int

    @property
    def workspace_bytes(self) -> int:
        """The most that workspace and outputs may hold together."""
        return self.workspace_mb * MEBIBYTE

    def for_runner(self, *, processes: int | None) -> dict[str, int | None]:
        """The limits that the runner sets on itself before it runs the agent.

        CPU time is a backstop behind the wall clock, which the worker keeps: every core busy for the whole time.
        """
        return {
            "memory_bytes": self.memory_mb * MEBIBYTE,
            "cpu_seconds": int(self.timeout_seconds) * (os.cpu_count() or 1) + 1,
            "file_bytes": self.workspace_bytes,
            "processes": processes,
        }
