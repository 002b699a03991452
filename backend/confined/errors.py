"""Why a job gave no result."""

from enum import StrEnum
from typing import Any


class FailureKind(StrEnum):
    """Causes of a failed job."""

    DEADLINE = "deadline"
    """It used up its processor time, or slept past the wall-clock limit; its process was killed."""
    MEMORY = "memory"
    """It needed more memory than it may have; its process was killed."""
    TOO_LARGE = "too large"
    """It, or its answer, does not fit into a message."""
    DIED = "died"
    """Its process ended, or sent what no program sends."""
    UNAVAILABLE = "unavailable"
    """No process could be started for it; another try may succeed."""
    HALTED = "halted"
    """Its caller's `halt` was set."""
    CLOSED = "closed"
    """The pool is closed."""
    FAILED = "failed"
    """The program raised; the message is the program's own."""


class ConfinedError(Exception):
    """A job gave no result; the text is worded for a person and quotes nothing of the job's data.

    `data` is what the program's `JobFailedError` carried, else None.
    """

    def __init__(self, kind: FailureKind, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.data = data


class JobFailedError(Exception):
    """Raised by a program's operation: its message, and `data` as JSON, reach the caller of the job."""

    def __init__(self, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.data = data
