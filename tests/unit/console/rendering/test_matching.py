import pytest

from console.rendering.matching import resembles


@pytest.mark.parametrize("typed", ["digest", "Dig", "digset", "diigest", "digst", "dogest", "dgt", "text dgest"])
def test_a_beginning_one_mistake_and_characters_left_out_are_tolerated(typed: str) -> None:
    assert resembles("Text digest", typed)


@pytest.mark.parametrize("typed", ["", " ", "xt", "dx", "tesd", "audit", "digest audit", "tgd", "ddggest"])
def test_other_words_are_not(typed: str) -> None:
    assert not resembles("Text digest", typed)
