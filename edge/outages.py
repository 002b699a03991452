"""Logging of calls to the backend that are repeated until they succeed."""

from contract.refusals import NoAnswer, Refusal
from telemetry.outages import RepeatedWork


class RepeatedCall(RepeatedWork):
    """Logs failures of a repeated call, except a backend that does not answer: the channel logs it."""

    def failed(self, error: Exception, *, traceback: bool = True) -> None:
        """Logs a failure, a refusal without its traceback."""
        if not isinstance(error, NoAnswer):
            super().failed(error, traceback=traceback and not isinstance(error, Refusal))
