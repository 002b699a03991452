"""Retry policies of an executing run: for database, object store, validators and failed steps (docs/agents.md)."""

from dataclasses import replace
from typing import Final

from backend.common.retry import Backoff, RetryPolicy
from backend.services.workflows.rules import Definition
from backend.storage.database import DatabaseUnavailableError, OutcomeUnknownError

RESOURCE: Final = RetryPolicy(
    retry_on=lambda error: isinstance(error, OSError),
    backoff=Backoff(first_seconds=1.0, longest_seconds=30.0),
    seconds=60.0,
)
"""For the object store, which may be unavailable or full for a while, and for validator processes."""

# Less than a lease lasts. A commit of unknown outcome must not be repeated.
DATABASE: Final = RetryPolicy(
    retry_on=lambda error: isinstance(error, DatabaseUnavailableError) and not isinstance(error, OutcomeUnknownError),
    backoff=Backoff(first_seconds=0.5, longest_seconds=0.5),
    seconds=10.0,
    from_start=True,
    describe=lambda error: str(error) or type(error).__name__,
)
"""For a change of a run while the database is unavailable for a moment."""

REPEATABLE: Final = replace(DATABASE, retry_on=lambda error: isinstance(error, DatabaseUnavailableError))
"""As `DATABASE`, for a change that detects whether an earlier try was committed."""

LONGEST_WAIT_SECONDS: Final = 900.0


def wait_seconds(retry: Definition | None, failed: int, failure_type: str, asked: float | None = None) -> float | None:
    """Returns the seconds to wait after the `failed`th attempt, at least the `asked` ones of its failure.

    Returns None after the last attempt, and for a failure type on which the step is not retried.
    """
    if retry is None or failed >= retry["attempts"]:
        return None
    # Versions stored by an earlier release have no types.
    retried_on = retry.get("on") or (failure_type,)
    if failure_type not in retried_on or failure_type in (retry.get("not_on") or ()):
        return None
    backoff = Backoff(retry["backoff_seconds"], LONGEST_WAIT_SECONDS, retry["multiplier"])
    return min(max(backoff.delay(failed), asked or 0.0), LONGEST_WAIT_SECONDS)
