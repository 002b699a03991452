import json
from typing import Any

import pytest

from edge.console.start_form import JsonPlaceError, initial_texts, json_of, read_json, start_fields

DECLARED: list[dict[str, Any]] = [
    {"name": "language", "type": "string", "enum": ["en", "fr"], "default": "en"},
    {"name": "count", "type": "integer", "required": True, "minimum": 1, "maximum": 9},
    {"name": "share", "type": "number"},
    {"name": "loud", "type": "boolean"},
    {"name": "day", "type": "date"},
    {"name": "options", "type": "json"},
    {"name": "documents", "type": "s3_prefix", "connector": "inbox"},
    {"name": "note", "type": "string", "description": "What for.", "max_length": 2_000},
]


def test_each_type_has_its_field() -> None:
    fields = {field.name: field for field in start_fields(DECLARED, {}, {})}
    kinds = ["choice", "number", "number", "choice", "date", "json", "s3_prefix", "area"]
    assert [field.kind for field in fields.values()] == kinds
    assert fields["language"].options == [("", "default: en"), ('"en"', "en"), ('"fr"', "fr")]
    assert fields["loud"].options == [("", "not given"), ("true", "true"), ("false", "false")]
    assert (fields["count"].required, fields["count"].help) == (True, "From 1 to 9.")
    assert fields["note"].help == "What for."


def test_texts_become_values_and_empty_ones_are_not_sent() -> None:
    typed = {
        "language": '"fr"',
        "count": " 7 ",
        "share": "0.10000000000000000001",
        "loud": "false",
        "day": "2026-09-24",
        "options": '{"a": [1,\n2]}',
        "documents": " s3://b/in/ ",
        "note": "",
    }
    text, problems = json_of(DECLARED, typed)
    assert problems == {}
    assert "0.10000000000000000001" in text
    assert json.loads(text) | {"share": 0} == {
        "language": "fr",
        "count": 7,
        "share": 0,
        "loud": False,
        "day": "2026-09-24",
        "options": {"a": [1, 2]},
        "documents": "s3://b/in/",
    }


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("count", "seven", "must be a whole number"),
        ("count", "true", "must be a whole number"),
        ("share", "NaN", "must be a number"),
        ("options", "[NaN]", "is not JSON: NaN is not a value of JSON"),
        ("options", '{"a": 1,\n "b" 2}', "is not JSON: line 2, column 6: Expecting ':' delimiter"),
    ],
)
def test_what_stands_for_no_value_is_a_problem_of_its_field(name: str, text: str, problem: str) -> None:
    assert json_of(DECLARED, {name: text})[1] == {name: problem}


def test_json_that_cannot_be_read_shows_the_line_and_a_mark_at_the_place() -> None:
    text = '{"a": 1,\n "b" 2}'
    (field,) = (each for each in start_fields(DECLARED, {"options": text}, {"options": "is not JSON"}) if each.error)
    assert field.excerpt == ' "b" 2}\n     ^'
    with pytest.raises(JsonPlaceError) as far:
        read_json("[" + "1, " * 100 + "x]")
    line, mark = far.value.excerpt.split("\n")
    assert line[mark.index("^")] == "x"


def test_deep_or_broken_json_never_raises_anything_else() -> None:
    for text in ("[" * 100_000, "", "\n", '{"a": "\ud800'):
        with pytest.raises(JsonPlaceError):
            read_json(text)


def test_values_of_a_run_become_the_same_texts_again() -> None:
    values = {"language": "fr", "count": 3, "loud": True, "options": {"a": 1}, "documents": "s3://b/in/", "day": None}
    texts = initial_texts(DECLARED, values)
    assert "day" not in texts
    assert json.loads(json_of(DECLARED, texts)[0]) == {name: value for name, value in values.items() if value}
