"""Log lines of calls to the backend that are repeated until they succeed."""

from contract.refusals import NoAnswer, Refusal
from telemetry.outages import RepeatedWork


class RepeatedCall(RepeatedWork):
    """As other repeated work, but nothing of a backend that does not answer: the channel has logged that."""

    def failed(self, error: Exception, *, traceback: bool = True) -> None:
        """Takes a failure; a refusal has no traceback that would help."""
        if not isinstance(error, NoAnswer):
            super().failed(error, traceback=traceback and not isinstance(error, Refusal))
