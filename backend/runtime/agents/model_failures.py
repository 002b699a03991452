"""The failures of calls to a model, with messages for the caller.

The exceptions of the library are imported here only once a model was called.
"""

import traceback
from typing import Final

from backend.models.catalog import ConfiguredModel
from backend.runtime.agents.base import StepFailed
from backend.runtime.agents.failures import plain

_LONGEST_REASON: Final = 500
_MASKED: Final = frozenset({"ModelUnauthorized", "ModelCallLimit"})
"""Causes without the provider's words: it may quote parts of a wrong key, or the library a setting of its own."""

_PHASES: Final = {
    "pool": "no connection was free",
    "connect": "it could not be opened",
    "write": "it broke while the request was sent",
    "read": "it broke while the answer was read",
}

# The library's exception, the type of the step error, the message, and whether no retry can help. The first that fits
# counts, so more specific ones come first.
_CAUSES: Final = (
    ("ModelRequestTimeout", "ModelTimeout", "the model did not answer in time", False),
    ("ModelTimeoutError", "ModelTimeout", "the model did not answer in time", False),
    ("ModelConnectionError", "ModelUnreachable", "the connection to the model's provider failed", False),
    ("ModelRateLimitError", "ModelRateLimited", "the model's provider refused the call for its rate limit", False),
    ("ModelQuotaExceededError", "ModelQuotaExceeded", "the account with the model's provider has no quota left", True),
    ("ModelAuthenticationError", "ModelUnauthorized", "the model's provider refused the api_key", True),
    ("ModelNotFoundError", "ModelNotFound", "the model's provider does not know the model", True),
    ("ModelContextWindowExceededError", "ModelInputTooLong", "the input is longer than the model takes", True),
    ("ModelRequestRejectedError", "ModelRequestRejected", "the model's provider rejected the request", True),
    ("ModelUnavailableError", "ModelUnavailable", "the model is not available at the moment", False),
    ("ModelServerError", "ModelServerError", "the model's provider failed", False),
    ("ContentFilterError", "ModelRefused", "the model's provider withheld the answer by its content filter", False),
    ("OutputTokenLimitExceeded", "ModelOutputTooLong", "the answer is longer than max_tokens allows", False),
    ("UsageLimitExceeded", "ModelCallLimit", "the agent called model or tools more often than one step may", False),
    ("ModelAPIError", "ModelError", "the call to the model failed", False),
    ("UserError", "InvalidAgent", "the model cannot be called as the agent declares it", True),
)
_MALFORMED: Final = (
    "ModelAnswerMalformed",
    "the model's provider answered with something other than an answer",
    False,
)


def cause_of(error: Exception) -> tuple[str, str, bool]:
    """Returns the type of a failed call, a message that quotes nothing, and whether no retry can help."""
    from pydantic_ai import exceptions

    malformed = isinstance(error, exceptions.ModelAPIError) and isinstance(error.__cause__, ValueError)
    fitting = (
        (cause, happened, final)
        for name, cause, happened, final in _CAUSES
        if isinstance(error, getattr(exceptions, name))
    )
    cause, happened, final = _MALFORMED if malformed else next(fitting, _MALFORMED)
    status = f" (HTTP {error.status_code})" if isinstance(error, exceptions.ModelHTTPError) else ""
    return cause, f"{happened}{status}", final


def model_failure(error: Exception, configured: ConfiguredModel) -> StepFailed:
    """Returns the failure of a step whose call to a model raised; it never holds the key."""
    from pydantic_ai import exceptions

    cause, happened, final = cause_of(error)
    # The key is removed before the text is cut, for half a key is a secret too.
    reason = "" if cause in _MASKED else configured.without_key(_reason(error)).partition("\n")[0][:_LONGEST_REASON]
    message = plain(f"{happened}{f': {reason}' if reason else ''}")
    retry_after = error.retry_after if isinstance(error, exceptions.ModelAPIError) else None
    log = b"" if isinstance(error, exceptions.AgentRunError) else _trace(error, configured)
    return StepFailed(cause, message, log, final=final, retry_after=retry_after)


def _reason(error: Exception) -> str:
    """Returns the provider's own message, where it sent one, else the library's."""
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


def _trace(error: Exception, configured: ConfiguredModel) -> bytes:
    """Returns the traceback of an exception that the library did not expect, for the step's log."""
    return configured.without_key("".join(traceback.format_exception(error))).encode(errors="replace")
