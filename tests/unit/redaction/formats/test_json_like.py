"""Text that is nearly JSON loses none of its labels, and nothing around its values is left out."""

import json
from pathlib import Path
from typing import Any

import pytest

from redaction.redactor import Redactor
from tests.unit.redaction.conftest import EveryWord

MAIL = "jane.roe@example.com"
ESCAPED = MAIL.replace("@", "\\u0040")


def swept(text: str, folder: Path, mode: str = "redact") -> tuple[str, dict[str, int]]:
    source, target = folder / "a.json", folder / "b.json"
    source.write_text(text)
    engine = Redactor({"mode": mode})
    assert engine.file(source, target, "a.json").kind == "text"
    return (target.read_text() if mode == "redact" else ""), engine.counts["categories"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            f'{{"x": NaN, "surname": "Roe", "m": "{ESCAPED}"}}',
            '{"x": NaN, "surname": "[PERSON]", "m": "[EMAIL_ADDRESS]"}',
        ),
        (
            f'// of {MAIL}\n{{"surname": "Roe", /* {MAIL} */}}',
            '// of [EMAIL_ADDRESS]\n{"surname": "[PERSON]", /* [EMAIL_ADDRESS] */}',
        ),
        (f'{{"surname": "Roe"}}\nsent to {MAIL} "open', '{"surname": "[PERSON]"}\nsent to [EMAIL_ADDRESS] "open'),
        ('{"a": Infinity, "card": 4111111111111111,}', '{"a": Infinity, "card": "[CREDIT_CARD]",}'),
        ('{"a": NaN, "name": {"first": "Jane"}}', '{"a": NaN, "name": {"first": "[PERSON]"}}'),
        (f'{{"a": \'x\', "bad": "\\x {MAIL}"}}', '{"a": \'x\', "bad": "\\\\x [EMAIL_ADDRESS]"}'),
    ],
)
def test_values_are_swept_with_their_keys(tmp_path: Path, text: str, expected: str) -> None:
    assert swept(text, tmp_path)[0] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '{"order": {"id": 99120331}, "who": "Ann", "weight": NaN, "n": 30}',
            '{"order": {"id": 99120331}, "who": "P", "weight": NaN, "n": 30}',
        ),
        (
            "// by Ann\n{\"ms\": 30000, // for Ann\n note: 'Ann Lee',\n x: [NaN, 1]}",
            "// P P\n{\"ms\": 30000, // P P\n note: 'P',\n x: [NaN, 1]}",
        ),
        ('{"a": "x, "path": "/1"}', '{"a": "x, "path": "/1"}'),
        ("[10] Ann: it is\n[11] Bob: ok", "[P] P: P P\n[P] P: P"),
    ],
)
def test_a_model_changes_no_keys_and_bare_words(tmp_path: Path, text: str, expected: str) -> None:
    source, target = tmp_path / "a.json", tmp_path / "b.json"
    source.write_text(text)
    engine = Redactor({"mode": "redact", "model": "local"}, EveryWord())
    engine.file(source, target, "a.json")
    assert target.read_text().replace("[PERSON]", "P") == expected


def test_a_number_on_a_line_of_its_own_is_replaced_by_a_string(tmp_path: Path) -> None:
    assert swept('{"x": NaN, "n": [\n  4111111111111111\n]}', tmp_path)[0] == '{"x": NaN, "n": [\n  "[CREDIT_CARD]"\n]}'


def test_values_are_counted_once(tmp_path: Path) -> None:
    text = f'{{"a": NaN, "surname": "Roe", "m": "{MAIL}"}} {MAIL}'
    counted = {"EMAIL_ADDRESS": 2, "PERSON": 1}
    assert swept(text, tmp_path)[1] == swept(text, tmp_path, "detect")[1] == counted


def test_a_long_text_is_swept_like_a_short_one(tmp_path: Path) -> None:
    lines = [f'{{"n": NaN, "surname": "Roe{number}", "m": "{ESCAPED}"}}\n' for number in range(20_000)]
    found, counts = swept("".join(lines), tmp_path)
    assert counts == {"EMAIL_ADDRESS": 20_000, "PERSON": 20_000}
    assert set(found.splitlines()) == {'{"n": NaN, "surname": "[PERSON]", "m": "[EMAIL_ADDRESS]"}'}


def test_a_text_without_any_break_is_swept(tmp_path: Path) -> None:
    found, _ = swept("[x " + "word " * 150_000 + MAIL, tmp_path)
    assert found.endswith("word [EMAIL_ADDRESS]")


def value(given: Any) -> Any:
    return Redactor({"mode": "redact"}).value(given)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"name": {"first": "Jane", "last": "Roe"}}, {"name": {"first": "[PERSON]", "last": "[PERSON]"}}),
        ({"address": {"line1": "Foo"}, "after": "Foo"}, {"address": {"line1": "[LOCATION]"}, "after": "Foo"}),
        ({"customers": [{"name": "A"}, {"name": "B"}]}, {"customers": [{"name": "[PERSON]"}, {"name": "[PERSON]"}]}),
        ({"phone": {"home": "555 123 4567"}}, {"phone": {"home": "[PHONE_NUMBER]"}}),
        (
            {"product": {"name": "Chair"}, "name": {"id": {"x": 1}}},
            {"product": {"name": "Chair"}, "name": {"id": {"x": 1}}},
        ),
    ],
)
def test_the_key_above_says_what_a_value_is(given: Any, expected: Any) -> None:
    assert value(given) == expected


def test_json_in_strings_is_swept_by_its_own_keys() -> None:
    inner = json.dumps({"surname": "Roe", "deep": json.dumps(["x", {"mail": MAIL.replace("@", "\u0040")}])})
    found = json.loads(value({"payload": inner, "other": "[not json]"})["payload"])
    assert found == {"surname": "[PERSON]", "deep": json.dumps(["x", {"mail": "[EMAIL_ADDRESS]"}])}


def test_json_in_strings_without_values_stays_as_written() -> None:
    given = {"payload": '{ "a":\t"b" }', "list": '["x"]'}
    assert value(given) == given


@pytest.mark.parametrize("unit", ['\\"', 'NaN"\\', '"a" : '])
def test_quotes_without_an_end_are_not_read_again_and_again(tmp_path: Path, unit: str) -> None:
    text = "{NaN " + unit * 200_000
    assert swept(f"{text}\n{MAIL}", tmp_path)[0] == f"{text}\n[EMAIL_ADDRESS]"
