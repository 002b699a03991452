import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redaction.formats import json_text
from redaction.formats.json_text import NotJsonError, sweep_json
from redaction.redactor import Redactor
from tests.unit.redaction.conftest import SweepFile
from tests.unit.redaction.formats.pieces import collecting, pieces_of


def test_json_keeps_its_keys_layout_and_numbers(engine: Redactor, sweep_file: SweepFile) -> None:
    text = b'{ "mail" : "\\u006aane\\u0040example.org\\n",\t"n": 1.50e3, "card":4111111111111111, "a@b.co": [] }\n'
    outcome, swept = sweep_file(engine, "a.json", text)
    assert outcome.kind == "json"
    assert swept == (
        b'{ "mail" : "[EMAIL_ADDRESS]\\n",\t"n": 1.50e3, "card":"[CREDIT_CARD]", "[EMAIL_ADDRESS]": [] }\n'
    )


def test_keys_that_are_values_of_exact_types_are_replaced_and_stay_unique(engine: Redactor) -> None:
    value = {
        "[EMAIL_ADDRESS]": 0,
        "jane@example.org": {"john@example.org": 1, "jane@example.org": 2},
        "text": '{"john@example.org": 3}',
        "4111111111111111": 4,
        "+49 30 123456789": 5,
        "1700000000000": 6,
        "Jane Doe": 7,
    }
    assert engine.value(value) == {
        "[EMAIL_ADDRESS]": 0,
        "[EMAIL_ADDRESS]-2": {"[EMAIL_ADDRESS]-3": 1, "[EMAIL_ADDRESS]-2": 2},
        "text": '{"[EMAIL_ADDRESS]-3": 3}',
        "[CREDIT_CARD]": 4,
        "[PHONE_NUMBER]": 5,
        "1700000000000": 6,
        "Jane Doe": 7,
    }


@pytest.mark.parametrize(
    ("key", "swept"),
    [
        ("Contact bob@example.org", "Contact [EMAIL_ADDRESS]"),
        ("a@example.org, b@example.org", "[EMAIL_ADDRESS], [EMAIL_ADDRESS]"),
        ("a@example.org,b@example.org", "[EMAIL_ADDRESS],[EMAIL_ADDRESS]"),
        ("call +44 20 7946 0321 (home)", "call [PHONE_NUMBER] (home)"),
        ("card_4111111111111111", "card_[CREDIT_CARD]"),
        ("SSN 078-05-1120, closed", "SSN [US_SSN], closed"),
        ("GB82 WEST 1234 5698 7654 32 of us", "[IBAN_CODE] of us"),
        ("Mrs Jane Doe of 2024-03-01", "Mrs Jane Doe of 2024-03-01"),
    ],
)
def test_values_of_exact_types_among_other_words_of_a_key_are_replaced(engine: Redactor, key: str, swept: str) -> None:
    again = {key: 1, swept: 2, f"{key} ": 3}
    different = {swept: 1, f"{swept}-2": 2, f"{swept} ": 3}
    assert engine.value(again) == (different if key != swept else again)


@pytest.mark.parametrize("key", ["ts", "time", "@timestamp", "logged_at"])
def test_the_time_of_a_line_of_a_log_stays(engine: Redactor, key: str) -> None:
    assert engine.value({key: "2025-04-02T10:11:12.5Z"}) == {key: "2025-04-02T10:11:12.5Z"}
    assert engine.value({key: "2025-04-02"}) == {key: "[DATE_TIME]"}


def test_json_lines_are_swept_line_by_line(engine: Redactor, sweep_file: SweepFile) -> None:
    assert sweep_file(engine, "a", b'{"a":"jane@example.org"}\n{"a":1}\n')[1] == b'{"a":"[EMAIL_ADDRESS]"}\n{"a":1}\n'


@pytest.mark.parametrize(
    "text", ["{mail: jane@example.org}", '{"mail": "jane@example.org', "[2024] by jane@example.org", '["a\n@']
)
def test_what_is_no_json_is_swept_as_text(engine: Redactor, sweep_file: SweepFile, text: str) -> None:
    outcome, swept = sweep_file(engine, "a.json", text.encode())
    assert outcome.kind == "text"
    assert swept == text.replace("jane@example.org", "[EMAIL_ADDRESS]").encode()
    assert engine.counts["values"] == text.count("jane")


@pytest.mark.parametrize(
    "content",
    [
        '["' + "a " * 500_000 + '"]',
        '["' + "\\\\" * 500_000 + '"]',
        '{"' + "a" * 1_000_000 + '": 1}',
        "[" * 1_000_000,
        "[" + "1" * 1_000_000 + "]",
        '["a"' + " " * 1_000_000 + ", 1]",
    ],
    ids=["string", "escapes", "key", "brackets", "number", "blanks"],
)
def test_json_text_is_read_a_few_times_however_it_grows(content: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read = 0
    cut = json_text.tokens_of

    def counting(text: str) -> tuple[list[str], str]:
        nonlocal read
        read += len(text)
        return cut(text)

    monkeypatch.setattr(json_text, "BATCH", 1_000)
    monkeypatch.setattr(json_text, "tokens_of", counting)
    assert "".join(sweep_json(pieces_of(content, 1_000), lambda *_: {})) == content
    assert read < 3 * len(content)


@settings(deadline=None, max_examples=80)
@given(
    value=st.recursive(
        st.text(alphabet='ab{}[],:"\\\n\u00e9', max_size=6) | st.integers() | st.none(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    ),
    size=st.integers(1, 9),
    indent=st.sampled_from([None, 1]),
)
def test_json_is_read_alike_inpieces_of(value: object, size: int, indent: int | None) -> None:
    text = json.dumps(value, indent=indent)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_text, "BATCH", 1)
        pieces: list[str] = []
        whole: list[str] = []
        swept = "".join(sweep_json(pieces_of(text, size), collecting(pieces)))
        "".join(sweep_json([text], collecting(whole)))
    assert swept == text
    assert pieces == whole


def test_a_json_value_too_long_to_hold_is_withheld(
    engine: Redactor, sweep_file: SweepFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_text, "LONGEST_VALUE", 600_000)
    outcome, swept = sweep_file(engine, "a.json", b'["' + b"a" * 2_000_000 + b'"]')
    assert (outcome.kind, outcome.withheld, outcome.reason, swept) == ("json", True, "value_too_long", None)


def test_malformed_json_is_refused() -> None:
    with pytest.raises(NotJsonError):
        "".join(sweep_json(["{'a': 1}"], lambda *_: {}))


@pytest.mark.parametrize(
    ("text", "swept"),
    [
        ('{"key": "first_name", "value": "Rosalind"}', '{"key": "first_name", "value": "[PERSON]"}'),
        ('{"name": "Colour", "value": "Green"}', '{"name": "Colour", "value": "Green"}'),
        ('{"type": "user", "text": "Jane Doe"}', '{"type": "user", "text": "Jane Doe"}'),
        ('[{"name": "surname", "value": "Roe"}]', '[{"name": "surname", "value": "[PERSON]"}]'),
        ('{"type": "surname", "text": "Doe"}', '{"type": "surname", "text": "[PERSON]"}'),
        (
            '{"telecom": [{"system": "phone", "use": 1, "value": "02079460321"}], "name": {"text": "Jane Doe"}}',
            '{"telecom": [{"system": "phone", "use": 1, "value": "[PHONE_NUMBER]"}], "name": {"text": "[PERSON]"}}',
        ),
        (
            '{"columns": ["id", "surname"], "rows": [[1, "Roe"], [2, "Brand"]], "note": ["a", "Green"]}',
            '{"columns": ["id", "surname"], "rows": [[1, "[PERSON]"], [2, "[PERSON]"]], "note": ["a", "Green"]}',
        ),
        (
            '{"fields": [{"name": "surname", "type": "text"}, {"name": "city"}], "data": [["Roe", "Ulm"]]}',
            '{"fields": [{"name": "surname", "type": "text"}, {"name": "city"}], "data": [["[PERSON]", "[LOCATION]"]]}',
        ),
        (
            '[[1, "Vorname", "Ort"], [2, "Ottilie", "Ulm"], ["x", "Ann"], [[4], {"a": "Green"}]]',
            '[[1, "Vorname", "Ort"], [2, "[PERSON]", "[LOCATION]"], ["x", "[PERSON]"], [[4], {"a": "Green"}]]',
        ),
    ],
)
def test_a_label_that_stands_as_a_value_names_the_values_beside_or_below_it(
    engine: Redactor, sweep_file: SweepFile, text: str, swept: str
) -> None:
    assert sweep_file(engine, "a.json", text.encode())[1] == swept.encode()


def test_a_tab_in_a_string_is_read_as_one(engine: Redactor, sweep_file: SweepFile) -> None:
    text = b'{"surname": "Roe\tBrand", "note": "a\tb\\n"}'
    outcome, swept = sweep_file(engine, "a.json", text)
    assert (outcome.kind, swept) == ("json", b'{"surname": "[PERSON]", "note": "a\tb\\n"}')
