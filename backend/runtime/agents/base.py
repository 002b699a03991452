from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backend.runtime.sandbox import Limits, Sandbox

OnProgress = Callable[[str, dict[str, Any]], Awaitable[None] | None]
"""Told of each progress event as (message, data), in order; the step is held up until it returns."""


@dataclass(frozen=True)
class StepRequest:
    """All that an agent gets to see of its run.

    `needs` maps each needed step to its return value. `inputs` is the run's folder of inputs, read-only to the step.
    `outputs` is the step's own folder on the host, made if need be: it receives the output files, and is removed if the
    step fails. Of a connector only type, bucket and prefixes reach the step.
    """

    step: str
    code: str
    parameters: Mapping[str, Any]
    input_text: str | None
    needs: Mapping[str, Any]
    inputs: Path | None
    outputs: Path
    connectors: Mapping[str, Mapping[str, Any]]
    limits: Limits


@dataclass(frozen=True)
class StepResult:
    """What a completed step leaves: its JSON return value, and what it printed."""

    value: Any
    log: bytes


class StepFailed(Exception):  # noqa: N818 - the event's name in DECISIONS.md §5
    """A step that came to no result.

    `message` is for the caller and holds no traceback; `type` is the exception's type, or names the cause; `log` is
    what the step printed and the traceback, for the step's own log.
    """

    def __init__(self, type: str, message: str, log: bytes = b"") -> None:  # noqa: A002 - the step error's field
        super().__init__(message)
        self.type = type
        self.message = message
        self.log = log


AgentRunner = Callable[[Sandbox, StepRequest, OnProgress], Awaitable[StepResult]]
"""Runs a step of one agent type; raises StepFailed."""
