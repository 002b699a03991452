"""How long an executing run waits for what it depends on."""

from dataclasses import replace
from typing import Final

from backend.retry import Backoff, RetryPolicy
from backend.storage.database import DatabaseUnavailableError, OutcomeUnknownError

RESOURCE: Final = RetryPolicy(
    retry_on=lambda error: isinstance(error, OSError),
    backoff=Backoff(first_seconds=1.0, longest_seconds=30.0),
    seconds=60.0,
)
"""For the object store, which may be unavailable or full for a while, and for the processes that judge values."""

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
"""As `DATABASE`, for a change that finds out whether an earlier try of it holds."""
