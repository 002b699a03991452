"""Meter of the calls to a model by one attempt of a step, within the budget of its run.

The meter counts each answer when it arrives, so that also the use by a failed or cancelled attempt is recorded.
"""

from dataclasses import dataclass, field
from decimal import Decimal

from backend.common import metrics
from backend.common.money import dollars
from backend.resources.model_prices import CallTokens, whole_microusd


class BudgetUsedUpError(Exception):
    """The budget of a run is used up; the text names the budget and its use."""


@dataclass(slots=True)
class RunBudget:
    """Most tokens and cost of a run's own steps, and what they have used; None for no limit.

    `cost_microusd` are millionths of a US dollar; calls without a known price add no cost.
    """

    most_tokens: int | None = None
    most_microusd: int | None = None
    tokens: int = 0
    microusd: Decimal = Decimal(0)

    def require_room(self) -> None:
        """Refuses another call once the budget is used up.

        Raises:
            BudgetUsedUpError: the budget is used up.
        """
        if self.most_tokens is not None and self.tokens >= self.most_tokens:
            raise _used_up(f"{self.most_tokens:,} tokens", f"{self.tokens:,}")
        if self.most_microusd is not None and self.microusd >= self.most_microusd:
            raise _used_up(f"{dollars(self.most_microusd)} US dollars", dollars(whole_microusd(self.microusd)))

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
        return None if self.microusd is None else whole_microusd(self.microusd)

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


def _used_up(budget: str, used: str) -> BudgetUsedUpError:
    return BudgetUsedUpError(f"the run's budget of {budget} is used up: its steps have used {used}")
