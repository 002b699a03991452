"""Swept YAML and TOML are read by their parsers, whatever form their collections have."""

import tomllib

import pytest
import yaml

from redaction.redactor import Redactor
from tests.unit.redaction.conftest import SweepFile

_CARD = 4111111111111111


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: [jane@mail.example, {surname: Roe}]", {"a": ["[EMAIL_ADDRESS]", {"surname": "[PERSON]"}]}),
        ("{jane@mail.example: 1, b: 2}", {"[EMAIL_ADDRESS]": 1, "b": 2}),
        ("a: {b: see jane@mail.example\n   for more, c: 1}", {"a": {"b": "see [EMAIL_ADDRESS] for more", "c": 1}}),
        ("a: jane@mail.example\n  and more", {"a": "[EMAIL_ADDRESS] and more"}),
    ],
)
def test_plain_scalars_of_swept_yaml_stay_legal(
    engine: Redactor, sweep_file: SweepFile, text: str, expected: object
) -> None:
    _, swept = sweep_file(engine, "a.yaml", text.encode())
    assert swept is not None
    assert yaml.safe_load(swept) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"a = [\n {_CARD},\n  {_CARD} # two\n]\nport = 1", {"a": ["[CREDIT_CARD]"] * 2, "port": 1}),
        (
            f'a = [\n  {{ surname = "Roe", card = {_CARD} }},\n  {{ n = 12345 }}, # jane@mail.example\n]\nport = 1',
            {"a": [{"surname": "[PERSON]", "card": "[CREDIT_CARD]"}, {"n": 12345}], "port": 1},
        ),
        ('surname = [\n  "Roe", # ]\n  "Doe"\n]\n[b]\nport = 1', {"surname": ["[PERSON]"] * 2, "b": {"port": 1}}),
        ("dob = [\n 1990-01-02,\n 1991-02-03\n]\nport = 1", {"dob": ["[DATE_TIME]"] * 2, "port": 1}),
        ("a = [[\"]\", 1], [\n '''x''', \"jane@mail.example\"]]", {"a": [["]", 1], ["x", "[EMAIL_ADDRESS]"]]}),
    ],
)
def test_lists_of_several_lines_of_swept_toml_stay_legal(
    engine: Redactor, sweep_file: SweepFile, text: str, expected: object
) -> None:
    _, swept = sweep_file(engine, "a.toml", text.encode())
    assert swept is not None
    assert tomllib.loads(swept.decode()) == expected


@pytest.mark.parametrize(
    "text", ["jane=40mail.example", "jane=2Edoe=40mail.example", "jane=40=\nmail.example", "jane=40mail=2Eexample"]
)
def test_an_address_in_quoted_printable_without_headers_is_found(engine: Redactor, text: str) -> None:
    assert engine.text(f"Write to {text}, please") == "Write to [EMAIL_ADDRESS], please"


@pytest.mark.parametrize("text", ["width=40px", "f(timeout=40s.total_seconds())", "page=40items.json", "a=40"])
def test_a_number_behind_an_equals_sign_is_no_quoted_printable(engine: Redactor, text: str) -> None:
    assert engine.text(text) == text
