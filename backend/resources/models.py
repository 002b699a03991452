"""Language models that agents and PII policies name: made from settings and manifests; causes of failed calls."""

import inspect
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from backend.common.optional_parts import LLM, PII_MODEL
from backend.common.retry import Backoff, RetryPolicy
from backend.common.secret_scrubbing import without_key
from backend.common.secrets import SecretError, Secrets
from backend.resources.model_prices import ModelPrices
from backend.settings import ModelProvider
from redaction.policy import LOCAL

_LONGEST_REASON: Final = 500
# Failures without the provider's reason: it may quote parts of a wrong key, or name settings that do not exist here.
_WITHOUT_REASON: Final = frozenset({"ModelUnauthorized", "ModelCallLimit"})

_PHASES: Final = {
    "pool": "no connection was free",
    "connect": "it could not be opened",
    "write": "it broke while the request was sent",
    "read": "it broke while the answer was read",
}


if TYPE_CHECKING:
    from pydantic_ai.models import Model
    from pydantic_ai.providers import Provider

NOT_CONFIGURED: Final = "ModelNotConfigured"
SECRET_UNAVAILABLE: Final = "SecretUnavailable"  # noqa: S105 - the name of a cause

# Without an address the library would read one from the environment of the process.
_ADDRESSES: Final = dict.fromkeys(("openai", "openai-chat", "openai-responses"), "https://api.openai.com/v1")
# Sent to servers that need no key; without a key the library would read one from the environment of the process.
_NO_KEY: Final = "no-key"


class ModelUnusableError(Exception):
    """A model cannot be called as declared; `type` names the cause, the text is for the caller."""

    def __init__(self, type: str, message: str) -> None:  # noqa: A002 - the step error's field
        # Both are arguments, so that the error can be pickled.
        super().__init__(type, message)
        self.type = type

    def __str__(self) -> str:
        return str(self.args[1])


@dataclass(frozen=True, slots=True)
class ConfiguredModel:
    """A model ready to be called inside `async with model`, which closes its connections.

    Its requests need the setting `max_retries=0`, because the library's own retries would not end with the caller's
    timeout.
    """

    model: "Model"
    key: str = field(repr=False)

    def without_key(self, text: str) -> str:
        """Returns text of the provider, which may quote the key, without the key."""
        return without_key(text, self.key)


@dataclass(frozen=True, slots=True)
class Models:
    """Factory of models; `providers` are the deployment's defaults by provider, `prices` those of calls."""

    secrets: Secrets
    providers: Mapping[str, ModelProvider]
    prices: ModelPrices = field(default_factory=lambda: ModelPrices({}))

    @property
    def callable_providers(self) -> frozenset[str]:
        """The providers whose models can be called without an agent's own api_key or base_url.

        `LOCAL` is among them where the model for personal data is installed; it is for PII policies alone.
        """
        remote = {name for name, given in self.providers.items() if given.api_key or given.base_url}
        return frozenset({LOCAL} | remote if PII_MODEL.installed else remote - {LOCAL})

    def make(self, name: str, *, api_key: str | None = None, base_url: str | None = None) -> ConfiguredModel:
        """Creates the model `provider:model`; the first call blocks for seconds, so it needs a thread of its own.

        `api_key` is the name of a secret. The deployment's own key is not sent to a `base_url` that it did not choose.

        Raises:
            ModelUnusableError: the provider is unknown or not installed, or there is no key for it.
        """
        provider = name.partition(":")[0]
        if base_url is None:
            default = self.providers.get(provider, ModelProvider())
            api_key, base_url = api_key or default.api_key, default.base_url
        if api_key is None and base_url is None:
            raise ModelUnusableError(
                NOT_CONFIGURED, f"neither the agent nor the deployment names an api_key for models of '{provider}'"
            )
        key = self._key(api_key)
        return ConfiguredModel(_model(name, provider, key, base_url or _ADDRESSES.get(provider)), key)

    def _key(self, secret: str | None) -> str:
        if secret is None:
            return _NO_KEY
        try:
            key = self.secrets.get(secret)
        except SecretError as error:
            raise ModelUnusableError(SECRET_UNAVAILABLE, str(error)) from None
        # The key is sent as a header; the error of an invalid header would quote it.
        if not key.isascii() or not key.isprintable() or " " in key:
            raise ModelUnusableError(SECRET_UNAVAILABLE, f"the secret '{secret}' holds something other than a key")
        return key


def _model(name: str, provider: str, key: str, base_url: str | None) -> "Model":
    try:
        from pydantic_ai.exceptions import UserError
        from pydantic_ai.models import infer_model
        from pydantic_ai.providers import infer_provider_class
    except ImportError:
        raise ModelUnusableError(NOT_CONFIGURED, f"models cannot be called: {LLM.not_installed}") from None

    def configured(_: str) -> "Provider[Any]":
        made = infer_provider_class(provider)
        given = {"api_key": key, "base_url": base_url}
        given = {name: value for name, value in given.items() if value is not None}
        unknown = given.keys() - inspect.signature(made).parameters.keys()
        if unknown:
            raise ModelUnusableError(
                NOT_CONFIGURED, f"models of '{provider}' cannot be called with {' and '.join(sorted(unknown))}"
            )
        return made(**given)

    try:
        return infer_model(name, configured)
    except ImportError as error:
        raise ModelUnusableError(NOT_CONFIGURED, f"models of '{provider}' are not installed: {error}") from None
    except (UserError, ValueError, TypeError) as error:
        reason = without_key(str(error), key)
        raise ModelUnusableError(NOT_CONFIGURED, f"the model '{name}' cannot be used: {reason}") from None


class FailureCause(NamedTuple):
    """Cause of a failed call, as step errors name it, with a description that quotes nothing."""

    cause: str
    description: str
    # Whether trying again is useless.
    final: bool


class ModelFailure(NamedTuple):
    """A failed call with the provider's reason and, for an unexpected error, the stack trace, both without the key."""

    cause: str
    message: str
    final: bool
    # Seconds that the provider asks to wait.
    retry_after: float | None
    trace: str


CAUSES_BY_EXCEPTION: Final = {
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
"""Causes by name of the library's exception; the first match counts, so specific exceptions stand first."""

MALFORMED: Final = FailureCause(
    "ModelAnswerMalformed", "the model's provider answered with something other than an answer", final=False
)


def cause_of(error: Exception) -> FailureCause:
    """Returns the cause of a failed call, with the HTTP status in its description if there was one."""
    from pydantic_ai import exceptions

    malformed = isinstance(error, exceptions.ModelAPIError) and isinstance(error.__cause__, ValueError)
    matching = (found for name, found in CAUSES_BY_EXCEPTION.items() if isinstance(error, getattr(exceptions, name)))
    found = MALFORMED if malformed else next(matching, MALFORMED)
    if isinstance(error, exceptions.ModelHTTPError):
        return found._replace(description=f"{found.description} (HTTP {error.status_code})")
    return found


def describe_failure(error: Exception, configured: ConfiguredModel) -> ModelFailure:
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


class ModelFailedError(Exception):
    """The call of a model failed; the text says why, without quoting the provider or the question.

    `final` says that trying again is useless.
    """

    def __init__(self, description: str, *, final: bool) -> None:
        super().__init__(description)
        self.final = final


MODEL_RETRY: Final = RetryPolicy(
    retry_on=lambda error: isinstance(error, ModelFailedError) and not error.final,
    backoff=Backoff(first_seconds=1.0, longest_seconds=30.0),
    attempts=7,
    describe=str,
)
"""Retries for a model that fails: about a minute of waiting in all."""
