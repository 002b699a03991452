"""Meter of the calls to a model by one attempt of a step, within the budget of its run.

It counts each answer when it arrives, so that also a failed or cancelled attempt has its numbers.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from backend.common import metrics
from backend.common.money import dollars
from backend.resources.model_prices import CallPrice, CallTokens, whole
from backend.resources.models import ConfiguredModel, Models
from backend.runtime.agents.base import StepFailed

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
    from pydantic_ai.settings import ModelSettings
    from pydantic_ai.tools import RunContext
    from pydantic_ai.usage import RequestUsage

BUDGET_EXCEEDED: Final = "BudgetExceeded"
_MOST_TOKENS: Final = 1_000_000_000
"""Most tokens of one call that are believed: the numbers are the provider's."""


@dataclass(slots=True)
class RunBudget:
    """Most tokens and cost of a run's own steps, and what they have used; None for no limit.

    `cost_microusd` are millionths of a US dollar; calls without a known price count none.
    """

    most_tokens: int | None = None
    most_microusd: int | None = None
    tokens: int = 0
    microusd: Decimal = Decimal(0)

    def require_room(self) -> None:
        """Refuses another call once the budget is used up.

        Raises:
            StepFailed: it is used up; the message names the budget and its use.
        """
        if self.most_tokens is not None and self.tokens >= self.most_tokens:
            raise _used_up(f"{self.most_tokens:,} tokens", f"{self.tokens:,}")
        if self.most_microusd is not None and self.microusd >= self.most_microusd:
            raise _used_up(f"{dollars(self.most_microusd)} US dollars", dollars(whole(self.microusd)))

    def add(self, tokens: int, microusd: Decimal | None) -> None:
        """Adds the use of one call."""
        self.tokens += tokens
        self.microusd += microusd or 0


@dataclass(slots=True)
class ModelMeter:
    """Use of one model by one attempt; `microusd` is None once a call had no known price."""

    budget: RunBudget = field(default_factory=RunBudget)
    model: str = ""
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    microusd: Decimal | None = Decimal(0)

    @property
    def cost_microusd(self) -> int | None:
        """The cost in whole millionths of a US dollar; None where it is unknown."""
        return None if self.microusd is None else whole(self.microusd)

    def add(self, tokens: CallTokens, microusd: Decimal | None) -> None:
        """Counts one answered call."""
        self.calls += 1
        self.input_tokens += tokens.input_tokens
        self.output_tokens += tokens.output_tokens
        self.cached_tokens += tokens.cached_tokens
        self.microusd = None if self.microusd is None or microusd is None else self.microusd + microusd
        self.budget.add(tokens.input_tokens + tokens.output_tokens, microusd)
        metrics.count_model_call(
            self.model,
            tokens.input_tokens,
            tokens.output_tokens,
            tokens.cached_tokens,
            None if microusd is None else float(microusd),
        )


def metered(configured: ConfiguredModel, models: Models, name: str, meter: ModelMeter) -> ConfiguredModel:
    """Returns the model with each of its calls counted by `meter`, and refused once the budget is used up.

    Loading the prices takes a moment, so it needs a thread of its own.
    """
    meter.model = name
    return replace(configured, model=_metered(configured.model, meter, models.prices.of(name)))


def _metered(wrapped: "Model", meter: ModelMeter, price: CallPrice) -> "Model":
    from pydantic_ai.models.wrapper import WrapperModel

    def count(usage: "RequestUsage") -> None:
        tokens = _believed(usage)
        meter.add(tokens, price(tokens))

    class MeteredModel(WrapperModel):
        """Model whose calls are counted."""

        async def request(
            self,
            messages: "list[ModelMessage]",
            model_settings: "ModelSettings | None",
            model_request_parameters: "ModelRequestParameters",
        ) -> "ModelResponse":
            meter.budget.require_room()
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
            meter.budget.require_room()
            stream: StreamedResponse | None = None
            try:
                async with self.wrapped.request_stream(
                    messages, model_settings, model_request_parameters, run_context
                ) as stream:
                    yield stream
            finally:
                if stream is not None:
                    # A stream that broke off has what it told until then.
                    count(stream.usage)

    return MeteredModel(wrapped)


def _believed(usage: "RequestUsage") -> CallTokens:
    """Returns the tokens that a provider reported, within bounds."""
    given, output = _bounded(usage.input_tokens, _MOST_TOKENS), _bounded(usage.output_tokens, _MOST_TOKENS)
    cached = _bounded(usage.cache_read_tokens, given)
    return CallTokens(given, output, cached, _bounded(usage.cache_write_tokens, given - cached))


def _bounded(number: int, most: int) -> int:
    return min(max(number, 0), most)


def _used_up(budget: str, used: str) -> StepFailed:
    message = f"the run's budget of {budget} is used up: its steps have used {used}"
    return StepFailed(BUDGET_EXCEEDED, message, final=True)
