"""Creates clients of language models by name, with a key that is a named secret.

pydantic-ai takes seconds to import, so it is imported when the first model is created.
"""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from backend.local_model import LOCAL
from backend.optional_parts import LLM, PII_MODEL
from backend.secret_scrubbing import without_key
from backend.secrets import SecretError, Secrets
from backend.settings import ModelProvider

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
    """A model cannot be called as it is declared; `type` names the cause, the text is for the caller."""

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
    """Factory of models; `providers` are the deployment's defaults by provider."""

    secrets: Secrets
    providers: Mapping[str, ModelProvider]

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
        # It is sent as a header; the error of an invalid header would quote it.
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
