"""Names in small letters, as people write them in chats."""

import pytest

from redaction.entity_types import ENTITY_TYPES
from redaction.search.finder import Finder


@pytest.fixture(name="finder", scope="module")
def _finder() -> Finder:
    return Finder({*ENTITY_TYPES} - {"DATE_TIME"}, 0.8)


def names(finder: Finder, text: str) -> list[str]:
    return [text[match.start : match.end] for match in finder.find(text) if match.entity == "PERSON"]


@pytest.mark.parametrize(
    "line", ["[10:02] {}: hello", "[12/03/24, 10:02] {}: hello", "12/03/2024, 10:02 - {}: hello", "10:02 <{}> hello"]
)
def test_who_speaks_is_found_in_small_letters(finder: Finder, line: str) -> None:
    assert names(finder, line.format("bea_77")) == ["bea_77"]


@pytest.mark.parametrize(
    "line", ["[10:02] error: no route", "[10:02] build: done", "[10:02] caller: hello", "bea: hello"]
)
def test_what_is_no_speaker_stays(finder: Finder, line: str) -> None:
    assert names(finder, line) == []


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("agent: can i take your full name please\ncaller: yeah its bea winter\n", "bea winter"),
        ("helpdesk: op welke naam staat het?\r\nklant: b. de winter\r\n", "b. de winter"),
        ("surname?\nwinter", "winter"),
        ("konsultant: imi\u0119 i nazwisko\nklient: beata zima\n", "beata zima"),
        ("nombre completo?\nbeatriz del valle", "beatriz del valle"),
    ],
)
def test_the_answer_to_a_question_for_a_name_is_one(finder: Finder, text: str, name: str) -> None:
    assert names(finder, text) == [name]


@pytest.mark.parametrize(
    "text",
    [
        "your name?\nwhy do you ask",
        "surname?\nnot yet given",
        "full name\nhome town\n",
        "full name: \ncolour: green\n",
        "his name?\n\nsmall boats",
    ],
)
def test_other_lines_below_a_name_are_none(finder: Finder, text: str) -> None:
    assert names(finder, text) == []


@pytest.mark.parametrize(
    "text",
    [
        "hey its {} from work",
        "moin, hier {}",
        "slt c {}",
        "hola soy {}, la del 3",
        "hoi met {}",
        "cze\u015b\u0107 tu {}",
    ],
)
def test_who_says_hello_is_found_in_small_letters(finder: Finder, text: str) -> None:
    assert names(finder, text.format("bea")) == ["bea"]


@pytest.mark.parametrize(
    "text", ["hey its raining", "hi its the plumber", "moin, hier ist alles gut", "hoi met mij", "hola soy yo"]
)
def test_a_greeting_without_a_name_stays(finder: Finder, text: str) -> None:
    assert names(finder, text) == []


@pytest.mark.parametrize("text", ["hi {}! are you there", "slt {}, ok", "bea: hallo {} !", "hola {}, gracias"])
def test_whom_a_greeting_is_for_is_found_in_small_letters(finder: Finder, text: str) -> None:
    assert names(finder, text.format("jona")) == ["jona"]


@pytest.mark.parametrize(
    "text", ["hi mate!", "hey guys, hello", "hallo zusammen!", "hola chicos, hoy no", "hi everyone!"]
)
def test_a_greeting_for_nobody_by_name_stays(finder: Finder, text: str) -> None:
    assert names(finder, text) == []


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("12:00:01 INFO login accepted user=bea.winter from gate", "bea.winter"),
        ('level=info user="bea.winter" action=read', "bea.winter"),
        ("12:00:01 INFO user bwinter logged in via sso", "bwinter"),
        ("Benutzer bwinter angemeldet", "bwinter"),
    ],
)
def test_whose_account_a_log_names_is_found(finder: Finder, line: str, name: str) -> None:
    assert names(finder, line) == [name]


@pytest.mark.parametrize("line", ["user=app.service", "user=gateway_rw", "user guest logged in", "user is logged in"])
def test_an_account_of_no_person_stays(finder: Finder, line: str) -> None:
    assert names(finder, line) == []
