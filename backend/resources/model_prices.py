"""Prices of calls to models: from the settings, else from the offline data of genai-prices."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import Final, NamedTuple

from backend.settings import ModelPrice

# Providers in pydantic-ai whose models genai-prices lists under another provider.
_PROVIDERS: Final = {
    "openai-chat": "openai",
    "openai-responses": "openai",
    "google-gla": "google",
    "google-vertex": "google",
}
_MILLION: Final = 1_000_000


class CallTokens(NamedTuple):
    """Tokens of one or more calls; tokens read from and written to the provider's cache are part of the input."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int
    cache_write_tokens: int = 0


CallPrice = Callable[[CallTokens], Decimal | None]
"""Function from the tokens of a call to its price in millionths of a US dollar, None if it is unknown."""


@dataclass(frozen=True, slots=True)
class ModelPrices:
    """Prices by model, in the form `provider:model`; `overrides` are from the deployment's settings."""

    overrides: Mapping[str, ModelPrice]

    def price_of(self, model: str) -> CallPrice:
        """Returns the price of calls to a model; the first call loads the price data, which takes a moment."""
        override = self.overrides.get(model)
        return _published_price(model) if override is None else _configured_price(override)


def whole_microusd(cost: Decimal) -> int:
    """Returns a cost in whole millionths of a US dollar."""
    return int(cost.to_integral_value(ROUND_HALF_UP))


def _configured_price(price: ModelPrice) -> CallPrice:
    def of_call(tokens: CallTokens) -> Decimal:
        cached = price.input if price.cached is None else price.cached
        return (
            (tokens.input_tokens - tokens.cached_tokens) * price.input
            + tokens.cached_tokens * cached
            + tokens.output_tokens * price.output
        )

    return of_call


def _published_price(model: str) -> CallPrice:
    try:
        from genai_prices import Usage, calc_price
    except ImportError:
        return lambda _: None
    provider, _, name = model.partition(":")

    def of_call(tokens: CallTokens) -> Decimal | None:
        usage = Usage(
            input_tokens=tokens.input_tokens,
            output_tokens=tokens.output_tokens,
            cache_read_tokens=tokens.cached_tokens,
            cache_write_tokens=tokens.cache_write_tokens,
        )
        try:
            # Reads the data in its package: it downloads only if a program asks for an update.
            return calc_price(usage, name, provider_id=_PROVIDERS.get(provider, provider)).total_price * _MILLION
        except (LookupError, ValueError):
            return None

    return of_call
