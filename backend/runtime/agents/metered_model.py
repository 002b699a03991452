"""Wraps a configured model: counts its calls, and refuses them once the budget of the run is used up."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from math import isnan
from typing import TYPE_CHECKING, Any, Final

from backend.resources.model_prices import CallPrice, CallTokens
from backend.resources.models import ConfiguredModel, Models
from backend.runtime.agents.base import StepFailed
from backend.runtime.agents.model_meter import BudgetUsedUpError, ModelMeter, RunBudget

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
    from pydantic_ai.settings import ModelSettings
    from pydantic_ai.tools import RunContext
    from pydantic_ai.usage import RequestUsage

BUDGET_EXCEEDED: Final = "BudgetExceeded"
_MOST_TOKENS: Final = 1_000_000_000
"""Most tokens of one call that are counted, because a provider may report any number."""


def meter_model(configured: ConfiguredModel, models: Models, name: str, meter: ModelMeter) -> ConfiguredModel:
    """Returns the model with each of its calls counted by `meter`, and refused once the budget is used up.

    Loads the prices, which takes a moment: call it in a thread.
    """
    meter.model = name
    return replace(configured, model=_wrap(configured.model, meter, models.prices.price_of(name)))


def _wrap(wrapped: "Model", meter: ModelMeter, price: CallPrice) -> "Model":
    from pydantic_ai.models.wrapper import WrapperModel

    def count(usage: "RequestUsage") -> None:
        tokens = _bounded_tokens(usage)
        meter.add(tokens, price(tokens))

    class MeteredModel(WrapperModel):
        """Model whose calls are counted."""

        async def request(
            self,
            messages: "list[ModelMessage]",
            model_settings: "ModelSettings | None",
            model_request_parameters: "ModelRequestParameters",
        ) -> "ModelResponse":
            _require_room(meter.budget)
            response = await super().request(messages, model_settings, model_request_parameters)
            count(response.usage)
            return response

        @asynccontextmanager
        async def request_stream(
            self,
            messages: "list[ModelMessage]",
            model_settings: "ModelSettings | None",
            model_request_parameters: "ModelRequestParameters",
            run_context: "RunContext[Any] | None" = None,
        ) -> "AsyncGenerator[StreamedResponse]":
            _require_room(meter.budget)
            stream: StreamedResponse | None = None
            try:
                async with self.wrapped.request_stream(
                    messages, model_settings, model_request_parameters, run_context
                ) as stream:
                    yield stream
            finally:
                if stream is not None:
                    # A stream that broke off has the usage that it reported until then.
                    count(stream.usage)

    return MeteredModel(wrapped)


def _bounded_tokens(usage: "RequestUsage") -> CallTokens:
    """Returns the tokens that a provider reported, within bounds."""
    given, output = _bounded(usage.input_tokens, _MOST_TOKENS), _bounded(usage.output_tokens, _MOST_TOKENS)
    cached = _bounded(usage.cache_read_tokens, given)
    return CallTokens(given, output, cached, _bounded(usage.cache_write_tokens, given - cached))


def _bounded(number: float, most: int) -> int:
    # Clients of providers pass on whatever number the answer has.
    return 0 if isnan(number) else int(min(max(number, 0), most))


def _require_room(budget: RunBudget) -> None:
    try:
        budget.require_room()
    except BudgetUsedUpError as error:
        raise StepFailed(BUDGET_EXCEEDED, str(error), final=True) from None
