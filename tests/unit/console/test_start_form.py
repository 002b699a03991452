import json
from typing import Any

import pytest

from console.start_form import JsonPlaceError, carried_texts, initial_texts, json_of, read_json, start_fields

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


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\x85"])
def test_the_marked_line_is_the_one_of_the_error_whatever_a_string_before_it_holds(mark: str) -> None:
    with pytest.raises(JsonPlaceError, match="line 2, column 6") as wrong:
        read_json(f'{{"a": "x{mark}y",\n "b" 2}}')
    assert wrong.value.excerpt == ' "b" 2}\n     ^'


def test_deep_or_broken_json_never_raises_anything_else() -> None:
    for text in ("[" * 100_000, "", "\n", '{"a": "\ud800'):
        with pytest.raises(JsonPlaceError):
            read_json(text)


def test_null_of_a_json_field_is_sent_and_shown_again_and_becomes_no_text_of_another_type() -> None:
    assert json_of(DECLARED, {"options": " null "}) == ('{"options":  null }', {})
    assert initial_texts(DECLARED, {"options": None}) == {"options": "null"}
    text = [{"name": "options", "type": "string"}]
    assert carried_texts(DECLARED, text, {"options": "null"}) == {"options": ""}


def test_values_of_a_run_become_the_same_texts_again() -> None:
    values = {"language": "fr", "count": 3, "loud": True, "options": {"a": 1}, "documents": "s3://b/in/", "day": None}
    texts = initial_texts(DECLARED, values)
    assert "day" not in texts
    assert json.loads(json_of(DECLARED, texts)[0]) == {name: value for name, value in values.items() if value}


def test_a_value_with_line_breaks_and_one_of_many_levels_keep_them_in_their_fields() -> None:
    declared = [{"name": "title", "type": "string"}, {"name": "options", "type": "json"}]
    deep = json.loads("[" * 400 + "]" * 400)
    texts = initial_texts(declared, {"title": "a\nb", "options": deep})
    assert [field.kind for field in start_fields(declared, texts, {})] == ["area", "json"]
    text, problems = json_of(declared, texts)
    assert (json.loads(text), problems) == ({"title": "a\nb", "options": deep}, {})


def test_what_was_typed_for_one_version_is_shown_in_the_fields_of_another() -> None:
    shown: list[dict[str, Any]] = [
        {"name": "language", "type": "string", "enum": ["en", "fr"]},
        {"name": "share", "type": "number"},
        {"name": "count", "type": "integer"},
        {"name": "dropped", "type": "string"},
    ]
    chosen: list[dict[str, Any]] = [
        {"name": "language", "type": "string"},
        {"name": "share", "type": "number"},
        {"name": "count", "type": "string"},
        {"name": "added", "type": "string"},
    ]
    typed = {"language": '"fr"', "share": "0.10000000000000000001", "count": "many", "dropped": "x"}
    assert carried_texts(shown, chosen, typed) == {"language": "fr", "share": typed["share"], "count": "many"}
    assert carried_texts(chosen, shown, {"language": "fr"})["language"] == '"fr"'
