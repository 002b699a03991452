"""Scripts of runs of the fake service, made by `progress`, `event`, `approval`, `complete` and `fail`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

FAILURE_CODES: Final = (
    "node_failed",
    "invariant_blocked",
    "input_materialisation_failed",
    "launch_failed",
    "license_unavailable",
    "wall_clock_limit_reached",
    "orphaned",
)
"""Failure codes of runs."""


@dataclass(frozen=True)
class Moment:
    """Event of a script, `after` seconds after the one before."""

    after: float


@dataclass(frozen=True)
class Emitted(Moment):
    """Event of a type, which changes nothing else."""

    type: str
    data: Mapping[str, Any]
    step: str | None


@dataclass(frozen=True)
class RequestedApproval(Moment):
    """Event: the run waits for a person, who decides after `decided_after` seconds; never without a decision."""

    title: str
    decision: Literal["approved", "rejected"] | None
    decided_after: float


@dataclass(frozen=True)
class Completed(Moment):
    """Event: the run completes."""

    result: Any
    outputs: Mapping[str, bytes]
    summary: str | None
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class Failed(Moment):
    """Event: the run fails."""

    code: str
    message: str
    outputs: Mapping[str, bytes] = field(default_factory=dict)


def progress(message: str, *, step: str = "work", after: float = 1.0, **data: Any) -> Moment:
    """Returns the event that a step reports progress."""
    return Emitted(after, "step.progress", {"message": message, **data}, step)


def event(type: str, *, step: str | None = "work", after: float = 1.0, **data: Any) -> Moment:  # noqa: A002 # its name
    """Returns an event of any type, as `step.failed` or one of a later release; it changes nothing else."""
    return Emitted(after, type, data, step)


def approval(
    title: str,
    *,
    decision: Literal["approved", "rejected"] | None = "approved",
    decided_after: float = 60.0,
    after: float = 1.0,
) -> Moment:
    """Returns the event that the run waits for a person; without a `decision` the wait never ends."""
    return RequestedApproval(after, title, decision, decided_after)


def complete(
    result: Any = None,
    *,
    outputs: Mapping[str, bytes | str] | None = None,
    summary: str | None = None,
    warnings: tuple[str, ...] = (),
    after: float = 1.0,
) -> Moment:
    """Returns the event that the run completes with a result, and with output files by path, as `step/name`."""
    files = {
        path: content.encode() if isinstance(content, str) else content for path, content in (outputs or {}).items()
    }
    return Completed(after, result, files, summary, warnings)


def fail(message: str, *, code: str = "node_failed", after: float = 1.0) -> Moment:
    """Returns the event that the run fails.

    Raises:
        ValueError: no run fails with this code.
    """
    if code not in FAILURE_CODES:
        raise ValueError(f"The code must be one of: {', '.join(FAILURE_CODES)}; {code!r} is none.")
    return Failed(after, code, message)
