"""Prices of calls to models."""

from decimal import Decimal

from backend.resources.model_prices import CallTokens, ModelPrices, whole_microusd
from backend.settings import ModelPrice

CALL = CallTokens(1_000, 100, 400)


def test_the_settings_have_the_last_word() -> None:
    prices = ModelPrices({"openai:gpt-5": ModelPrice(Decimal(1), Decimal(2))})
    assert prices.price_of("openai:gpt-5")(CALL) == 1_200


def test_cached_tokens_have_their_own_price() -> None:
    prices = ModelPrices({"openai:x": ModelPrice(Decimal(1), Decimal(2), Decimal("0.1"))})
    assert prices.price_of("openai:x")(CALL) == 600 + 40 + 200


def test_a_listed_model_has_its_price_and_others_none() -> None:
    prices = ModelPrices({})
    assert prices.price_of("openai-chat:gpt-4o")(CALL) == 600 * Decimal("2.5") + 400 * Decimal("1.25") + 1_000
    assert prices.price_of("openai:nobody-sells-this")(CALL) is None
    assert prices.price_of("nobody:gpt-4o")(CALL) is None


def test_half_a_millionth_is_rounded_up() -> None:
    assert (whole_microusd(Decimal("577.5")), whole_microusd(Decimal("0.4"))) == (578, 0)
