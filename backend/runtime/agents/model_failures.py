"""Turns failed calls to models into failures of steps."""

from backend.models import failures
from backend.models.catalog import ConfiguredModel
from backend.runtime.agents.base import StepFailed
from backend.runtime.agents.failures import plain


def model_failure(error: Exception, configured: ConfiguredModel) -> StepFailed:
    """Returns the failure of a step whose call to a model raised; it does not hold the key."""
    failure = failures.describe(error, configured)
    log = failure.trace.encode(errors="replace")
    return StepFailed(failure.cause, plain(failure.message), log, final=failure.final, retry_after=failure.retry_after)
