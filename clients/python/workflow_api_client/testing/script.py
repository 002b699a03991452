"""What happens in a run of the fake service."""

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
"""Why a run may fail."""


@dataclass(frozen=True)
class Moment:
    """Something that happens `after` seconds after the one before."""

    after: float


@dataclass(frozen=True)
class Said(Moment):
    """A step reports progress."""

    message: str
    data: Mapping[str, Any]
    step: str


@dataclass(frozen=True)
class Asked(Moment):
    """The run waits for a person, who decides after so many seconds, or never."""

    title: str
    decision: Literal["approved", "rejected"] | None
    decided_after: float


@dataclass(frozen=True)
class Completed(Moment):
    """The run completes."""

    result: Any
    outputs: Mapping[str, bytes]
    summary: str | None
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class Failed(Moment):
    """The run fails."""

    code: str
    message: str
    outputs: Mapping[str, bytes] = field(default_factory=dict)


def progress(message: str, *, step: str = "work", after: float = 1.0, **data: Any) -> Moment:
    """Returns that a step reports progress."""
    return Said(after, message, data, step)


def approval(
    title: str,
    *,
    decision: Literal["approved", "rejected"] | None = "approved",
    decided_after: float = 60.0,
    after: float = 1.0,
) -> Moment:
    """Returns that the run waits for a person; without a `decision` for as long as the test lasts."""
    return Asked(after, title, decision, decided_after)


def complete(
    result: Any = None,
    *,
    outputs: Mapping[str, bytes | str] | None = None,
    summary: str | None = None,
    warnings: tuple[str, ...] = (),
    after: float = 1.0,
) -> Moment:
    """Returns that the run completes with a result, and with files by their path as `step/name`."""
    files = {
        path: content.encode() if isinstance(content, str) else content for path, content in (outputs or {}).items()
    }
    return Completed(after, result, files, summary, warnings)


def fail(message: str, *, code: str = "node_failed", after: float = 1.0) -> Moment:
    """Returns that the run fails.

    Raises:
        ValueError: no run fails with this code.
    """
    if code not in FAILURE_CODES:
        raise ValueError(f"The code must be one of: {', '.join(FAILURE_CODES)}; {code!r} is none.")
    return Failed(after, code, message)
