"""Errors of jobs in confined processes."""

from enum import StrEnum
from typing import Any


class FailureKind(StrEnum):
    """Causes of a failed job."""

    DEADLINE = "deadline"
    """It exceeded its processor time or the wall-clock limit; its process was killed."""
    MEMORY = "memory"
    """It needed more memory than it may have; its process was killed."""
    TOO_LARGE = "too large"
    """It, or its answer, does not fit into a message."""
    DIED = "died"
    """Its process ended, or sent a malformed answer."""
    UNAVAILABLE = "unavailable"
    """No process could be started for it; another try may succeed."""
    HALTED = "halted"
    """Its caller's `halt` was set."""
    CLOSED = "closed"
    """The pool is closed."""
    FAILED = "failed"
    """The program raised; the message is the program's own."""


class ConfinedError(Exception):
    """A job gave no result; the text is for a person and does not quote the job's data.

    `data` is the data of the program's `JobFailedError`, else None.
    """

    def __init__(self, kind: FailureKind, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.data = data


class JobFailedError(Exception):
    """Raised by operations of programs: the caller of the job gets its message, and `data` as JSON."""

    def __init__(self, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.data = data
