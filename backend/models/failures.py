"""Describes why a call to a model failed, for the person who reads the run.

The exceptions of the library are imported only after a model was called.
"""

import traceback
from typing import Final, NamedTuple

from backend.models.catalog import ConfiguredModel

_LONGEST_REASON: Final = 500
# A provider may quote parts of a wrong key; the library's advice names a setting that does not exist here.
_WITHOUT_REASON: Final = frozenset({"ModelUnauthorized", "ModelCallLimit"})

_PHASES: Final = {
    "pool": "no connection was free",
    "connect": "it could not be opened",
    "write": "it broke while the request was sent",
    "read": "it broke while the answer was read",
}


class FailureCause(NamedTuple):
    """Why a call failed: the cause that a step error names, a description that quotes nothing, and its finality."""

    cause: str
    description: str
    # Whether trying again is useless.
    final: bool


class ModelFailure(NamedTuple):
    """A failed call with the provider's own reason and, for an unexpected error, its stack trace; without the key."""

    cause: str
    message: str
    final: bool
    # Seconds that the provider asks to wait.
    retry_after: float | None
    trace: str


# By exception of the library. The first that matches counts, so the more specific ones stand first.
_CAUSES: Final = {
    "ModelRequestTimeout": FailureCause("ModelTimeout", "the model did not answer in time", final=False),
    "ModelTimeoutError": FailureCause("ModelTimeout", "the model did not answer in time", final=False),
    "ModelConnectionError": FailureCause(
        "ModelUnreachable", "the connection to the model's provider failed", final=False
    ),
    "ModelRateLimitError": FailureCause(
        "ModelRateLimited", "the model's provider refused the call for its rate limit", final=False
    ),
    "ModelQuotaExceededError": FailureCause(
        "ModelQuotaExceeded", "the account with the model's provider has no quota left", final=True
    ),
    "ModelAuthenticationError": FailureCause(
        "ModelUnauthorized", "the model's provider refused the api_key", final=True
    ),
    "ModelNotFoundError": FailureCause("ModelNotFound", "the model's provider does not know the model", final=True),
    "ModelContextWindowExceededError": FailureCause(
        "ModelInputTooLong", "the input is longer than the model takes", final=True
    ),
    "ModelRequestRejectedError": FailureCause(
        "ModelRequestRejected", "the model's provider rejected the request", final=True
    ),
    "ModelUnavailableError": FailureCause("ModelUnavailable", "the model is not available at the moment", final=False),
    "ModelServerError": FailureCause("ModelServerError", "the model's provider failed", final=False),
    "ContentFilterError": FailureCause(
        "ModelRefused", "the model's provider withheld the answer by its content filter", final=False
    ),
    "OutputTokenLimitExceeded": FailureCause(
        "ModelOutputTooLong", "the answer is longer than max_tokens allows", final=False
    ),
    "UsageLimitExceeded": FailureCause(
        "ModelCallLimit", "the agent called model or tools more often than one step may", final=False
    ),
    "ModelAPIError": FailureCause("ModelError", "the call to the model failed", final=False),
    "UserError": FailureCause("InvalidAgent", "the model cannot be called as the agent declares it", final=True),
}
_MALFORMED: Final = FailureCause(
    "ModelAnswerMalformed", "the model's provider answered with something other than an answer", final=False
)


def cause_of(error: Exception) -> FailureCause:
    """Returns the cause of a failed call, with the HTTP status in its description if there was one."""
    from pydantic_ai import exceptions

    malformed = isinstance(error, exceptions.ModelAPIError) and isinstance(error.__cause__, ValueError)
    matching = (found for name, found in _CAUSES.items() if isinstance(error, getattr(exceptions, name)))
    found = _MALFORMED if malformed else next(matching, _MALFORMED)
    if isinstance(error, exceptions.ModelHTTPError):
        return found._replace(description=f"{found.description} (HTTP {error.status_code})")
    return found


def describe(error: Exception, configured: ConfiguredModel) -> ModelFailure:
    """Describes a failed call to a configured model, whose key is removed from every text."""
    from pydantic_ai import exceptions

    cause, description, final = cause_of(error)
    # The key is removed before the text is cut: half a key is a secret too.
    reason = (
        "" if cause in _WITHOUT_REASON else configured.without_key(_reason(error)).partition("\n")[0][:_LONGEST_REASON]
    )
    message = f"{description}: {reason}" if reason else description
    retry_after = error.retry_after if isinstance(error, exceptions.ModelAPIError) else None
    # An error that the library did not expect may be the provider's fault or this service's.
    trace = (
        ""
        if isinstance(error, exceptions.AgentRunError)
        else configured.without_key("".join(traceback.format_exception(error)))
    )
    return ModelFailure(cause, message, final, retry_after, trace)


def _reason(error: Exception) -> str:
    """Returns the provider's own words if it sent any, else the library's."""
    body = getattr(error, "body", None)
    if isinstance(body, dict):
        inner = body.get("error", body)
        message = inner.get("message") if isinstance(inner, dict) else inner
        return str(message or "")
    if hasattr(error, "status_code"):
        return ""
    phase = getattr(error, "phase", None)
    if phase is not None:
        return _PHASES[phase]
    return getattr(error, "message", None) or type(error).__name__
