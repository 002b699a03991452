"""Who speaks in a chat that has neither times nor capitals."""

import pytest

from redaction.entity_types import ENTITY_TYPES
from redaction.search.finder import Finder

_CHAT = "bea: is the door open\nrolf: not yet\nbea: ok, tell me then\nrolf: will do, thanks bea\nina: me too\n"


@pytest.fixture(name="finder", scope="module")
def _finder() -> Finder:
    return Finder(ENTITY_TYPES, 0.8)


def names(finder: Finder, text: str) -> list[str]:
    return [text[match.start : match.end] for match in finder.find(text) if match.entity == "PERSON"]


def test_who_speaks_in_turn_is_found_wherever_the_name_stands(finder: Finder) -> None:
    assert names(finder, _CHAT) == ["bea", "rolf", "bea", "rolf", "bea", "ina"]


@pytest.mark.parametrize(
    "text",
    [
        "bea: one line alone\nrolf: and another one\n",
        "colour: dark blue\nshape: very round\nscent: of roses\n" * 3,
        "nginx: 1.25\nredis: 7.2\nnginx: 1.26\nredis: 7.4\n",
        "error: no route there\nwarning: try again later\n" * 3,
        "the one speaker\nbea: says this here\n" + "bea: and also this\n" * 5,
    ],
)
def test_what_is_no_chat_of_two_stays(finder: Finder, text: str) -> None:
    assert names(finder, text) == []
