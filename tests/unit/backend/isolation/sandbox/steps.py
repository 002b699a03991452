"""Runs real steps, for tests of the sandbox and of agents."""

import asyncio
import itertools
import os
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from backend.common.secrets import Secrets
from backend.isolation.sandbox import Sandbox
from backend.resources.models import Models
from backend.runtime.agents import AgentDeps, Limits, StepRequest, run_python_step
from tests.support.answers import mismatch_of_answer, value_in_process
from tests.support.poll import LONGEST_WAIT_SECONDS
from tests.unit.backend.isolation.sandbox.layers import await_template

LIMITS = Limits(memory_mb=1024, timeout_seconds=120, workspace_mb=16)


@dataclass
class Steps:
    """Runs agents in one sandbox, each with an output folder of its own, and records their events."""

    sandbox: Sandbox
    root: Path
    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    warning: dict[str, Any] | None = None
    outputs: Path = Path()
    skipped: Mapping[str, int] = field(default_factory=dict)
    shared: set[str] = field(default_factory=set)
    numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def deps(self) -> AgentDeps:
        return AgentDeps(self.sandbox, Models(Secrets(), {}), mismatch_of_answer, value_in_process)

    def request(self, code: str, *, awaits_template: bool = True, **fields: Any) -> StepRequest:
        self.outputs = self.root / f"outputs-{next(self.numbers)}"
        given: dict[str, Any] = {
            "step": "count",
            "agent": {"type": "python", "code": textwrap.dedent(code)},
            "parameters": {},
            "input_text": None,
            "needs": {},
            "inputs": None,
            "files": {},
            "outputs": self.outputs,
            "connectors": {},
            "limits": LIMITS,
        }
        request = StepRequest(**{**given, **fields})
        if awaits_template and request.inputs is None and not request.files:
            await_template(self.sandbox, request.limits)
        return request

    def on_progress(self, message: str, data: dict[str, Any]) -> None:
        self.events.append((message, data))

    def run(self, code: str, **fields: Any) -> Any:
        return self.run_logged(code, **fields)[0]

    def run_logged(self, code: str, **fields: Any) -> tuple[Any, bytes]:
        result = asyncio.run(
            run_python_step(self.sandbox, self.request(code, **fields), self.on_progress, value_in_process)
        )
        self.skipped, self.shared = result.skipped, result.shared
        return result.value, result.log

    def files(self) -> dict[str, bytes]:
        return {
            path.relative_to(self.outputs).as_posix(): path.read_bytes()
            for path in self.outputs.rglob("*")
            if path.is_file()
        }


def eventually(holds: Callable[[], bool], seconds: float = LONGEST_WAIT_SECONDS) -> bool:
    """Whether `holds` becomes true in time."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def running(marker: str) -> list[int]:
    """Returns the processes of the machine that have this argument."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdecimal() and marker.encode() in (entry / "cmdline").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def marker() -> str:
    """Returns an argument for `sleep` that no other process has."""
    return f"3600.{os.getpid()}{time.monotonic_ns()}"
