"""Fields and messages of the log lines of requests over HTTP, at the API and at the console."""

from typing import Final

ANSWERED: Final = (
    *("request_id", "method", "route", "status", "reason", "ms", "bytes_in", "bytes_out"),
    *("checks", "address"),
)
"""Fields of the line of a request."""

CLIENT_GONE: Final = "client_gone"
"""Reason of a request whose caller disconnected before it had its answer."""

ABORTED: Final = "aborted"
"""Reason of a request whose answer was cut off: by a failure behind it, a bound on callers, or the process's end."""


def request_message(method: str, route: str, status: int, reason: str) -> str:
    """Returns the message of the line of a request."""
    return f"{method} {route} {status}{f' {reason}' if reason else ''}"


class CheckSampler:
    """Decides which health checks are logged: the first, each hundredth, and one with another status than before."""

    def __init__(self, every: int = 100) -> None:
        self._every = every
        self._status = 0
        self._since = 0

    def checks(self, status: int) -> int:
        """Returns for how many checks the line of this one stands, this one included; 0 where it has none."""
        self._since += 1
        if status == self._status and self._since < self._every:
            return 0
        checks, self._since, self._status = self._since, 0, status
        return checks
