"""Callers whose reads end once they no longer wait: after their deadline, or because they have gone."""

import threading
from collections.abc import Callable
from typing import Final, TypeVar

from backend.storage.database import DatabaseUnavailableError

R = TypeVar("R")


class CallerGoneError(DatabaseUnavailableError):
    """A read was ended because its caller no longer waits."""


class WaitingCaller:
    """The caller of one call. `gone` becomes true once it no longer waits, and stays so.

    `cancelling` is held while a statement of the call is being ended, so that its connection is not used meanwhile; a
    call may have several connections.
    """

    __slots__ = ("cancelling", "gone")

    def __init__(self) -> None:
        self.gone = False
        self.cancelling = threading.RLock()

    def leave(self) -> None:
        """Records that the caller no longer waits."""
        self.gone = True


class _Current(threading.local):
    caller: WaitingCaller | None = None


_CURRENT: Final = _Current()


def current_caller() -> WaitingCaller | None:
    """Returns the caller that this thread reads for; None where its work has no caller, or must not be ended."""
    return _CURRENT.caller


def caller_gone() -> bool:
    """Returns whether this thread reads for a caller that no longer waits."""
    caller = _CURRENT.caller
    return caller is not None and caller.gone


def gone_error() -> CallerGoneError:
    """Returns the error of a read whose caller has gone."""
    return CallerGoneError("The caller no longer waits, and the read was ended.")


def read_for(caller: WaitingCaller, read: Callable[[], R]) -> R:
    """Returns the result of a read on this thread, whose statements end once the caller no longer waits."""
    before, _CURRENT.caller = _CURRENT.caller, caller
    try:
        return read()
    finally:
        _CURRENT.caller = before
