import subprocess
import sys
import threading
from collections.abc import Collection, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backend.common import json_text
from redaction.counts import Counts
from redaction.model import Column, Mention
from redaction.redactor import Redactor
from tests.unit.redaction.conftest import engine_of

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-999, 999) | st.text(alphabet='ab {}[],:"\\\n\u00e9\U0001f600', max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)


def test_values_show_their_type(engine: Redactor) -> None:
    swept = engine.text("Mail jane@example.org, card 4111 1111 1111 1111.")
    assert swept == "Mail [EMAIL_ADDRESS], card [CREDIT_CARD]."
    assert engine.counts["categories"] == {"CREDIT_CARD": 1, "EMAIL_ADDRESS": 1}
    assert engine.counts["values"] == 2


def test_detect_counts_and_changes_nothing() -> None:
    engine = engine_of(mode="detect")
    value = {"mail": "jane@example.org", "card": 4111111111111111}
    assert engine.value(value) == value
    assert engine.text("jane@example.org") == "jane@example.org"
    assert engine.name("jane@example.org.csv") == "jane@example.org.csv"
    assert engine.counts["categories"] == {"CREDIT_CARD": 1, "EMAIL_ADDRESS": 3}


def test_only_the_categories_of_the_policy_are_found() -> None:
    engine = engine_of(categories=["EMAIL_ADDRESS"])
    assert engine.text("jane@example.org 4111 1111 1111 1111") == "[EMAIL_ADDRESS] 4111 1111 1111 1111"


@pytest.mark.parametrize(
    ("confidence", "swept"),
    [
        (0.5, "[URL], [PHONE_NUMBER], [PHONE_NUMBER], [EMAIL_ADDRESS]"),
        (0.8, "example.org, [PHONE_NUMBER], [PHONE_NUMBER], [EMAIL_ADDRESS]"),
        (1.0, "example.org, 020 7946 0958, 415-555-2671, [EMAIL_ADDRESS]"),
    ],
)
def test_the_confidence_of_the_policy_is_a_threshold(confidence: float, swept: str) -> None:
    engine = engine_of(min_confidence=confidence)
    assert engine.text("example.org, 020 7946 0958, 415-555-2671, jane@example.org") == swept


@pytest.mark.parametrize("text", ["[PERSON]", '"[EMAIL_ADDRESS]"', "[PERSON], [LOCATION]"])
def test_what_stands_in_the_place_of_a_value_is_none(text: str) -> None:
    engine = engine_of(min_confidence=0.5)
    value = {"first_name": text, "company": [text], "text": f"Name: {text}\nDear {text},"}
    assert engine.value(value) == value
    assert engine.counts["values"] == 0
    assert engine.value({"first_name": "[NOBODY]"}) == {"first_name": "[PERSON]"}


def test_keys_stay_and_tell_what_their_values_are(engine: Redactor) -> None:
    value = {
        "mail": "jane@example.org",
        "customerSSN": "123456789",
        "first_name": "Jane",
        "phones": ["4155552671", 4155552671],
        "count": 4155552671,
    }
    assert engine.value(value) == {
        "mail": "[EMAIL_ADDRESS]",
        "customerSSN": "[US_SSN]",
        "first_name": "[PERSON]",
        "phones": ["[PHONE_NUMBER]", "[PHONE_NUMBER]"],
        "count": 4155552671,
    }


def test_a_closing_tells_nothing_of_another_value(engine: Redactor) -> None:
    value = ["Regards,", "Bob Ray", "Regards,\nAnna Kowalska"]
    assert engine.value(value) == ["Regards,", "Bob Ray", "Regards,\n[PERSON]"]


def test_a_number_that_is_a_value_becomes_its_type(engine: Redactor) -> None:
    assert engine.value([4111111111111111, 4111111111111112, 4111111111111111.0]) == [
        "[CREDIT_CARD]",
        4111111111111112,
        "[CREDIT_CARD].0",
    ]


@settings(deadline=None, max_examples=60)
@given(value=_JSON)
def test_a_value_without_personal_data_comes_back_as_it_is(value: Any) -> None:
    assert json_text.canonical(_ENGINE.value(value)) == json_text.canonical(value)


def test_a_deep_value_is_swept(engine: Redactor) -> None:
    value: Any = "jane@example.org"
    for _ in range(300):
        value = [value]
    swept = engine.value(value)
    for _ in range(300):
        swept = swept[0]
    assert swept == "[EMAIL_ADDRESS]"


def test_names_stay_apart_and_legal(engine: Redactor) -> None:
    names = ["in/jane@example.org.csv.gz", "in/joe@example.org.csv.gz", "123-45-6789/a_4111111111111111.txt", "a/b.csv"]
    swept = ["in/[EMAIL_ADDRESS].csv.gz", "in/[EMAIL_ADDRESS]-2.csv.gz", "[US_SSN]/a_[CREDIT_CARD].txt", "a/b.csv"]
    assert [engine.name(name) for name in names] == swept
    assert [engine.name(name) for name in names] == swept


def test_a_value_beside_an_encoded_character_of_a_name_is_found(engine: Redactor) -> None:
    assert engine.name("d%5C123-45-6789%0A.txt") == "d%5C[US_SSN]%0A.txt"
    assert engine.name("jane%40example.org") == "[EMAIL_ADDRESS]"
    assert engine.name("a%255Cb/c%5Cd") == "a%255Cb/c%5Cd"


def test_a_long_name_stays_within_what_a_file_system_takes(engine: Redactor) -> None:
    swept = engine.name("x/" + "a@b.co " * 34 + ".csv")
    assert len(swept.encode()) < 250
    assert swept.endswith(".csv")


class _Model:
    def __init__(self, *mentions: Mention) -> None:
        self.asked: list[str] = []
        self._mentions = mentions

    def find(self, text: str, categories: Collection[str], _: Sequence[Column] = ()) -> Sequence[Mention]:
        self.asked.append(text)
        return self._mentions


def _with_model(model: _Model, **policy: Any) -> Redactor:
    return Redactor({"mode": "redact", **policy}, model)


def test_a_model_s_quotes_are_looked_up_in_the_text() -> None:
    model = _Model(
        Mention("PERSON", "Jane Doe", 0.9),
        Mention("PERSON", "Ann", 0.9),
        Mention("PERSON", "nobody", 1.0),
        Mention("X", "met", 1),
    )
    engine = _with_model(model)
    assert (
        engine.text("Jane Doe met Ann, not Annabel. Jane Doe left")
        == "[PERSON] met [PERSON], not Annabel. [PERSON] left"
    )
    assert engine.counts["categories"] == {"PERSON": 3}


def test_a_model_s_doubts_count_against_the_threshold() -> None:
    assert _with_model(_Model(Mention("PERSON", "Jane", 0.79))).text("Jane") == "Jane"


def test_used_up_calls_leave_the_rules_and_are_counted() -> None:
    model = _Model(Mention("PERSON", "Jane", 0.9))
    engine = _with_model(model, max_model_calls=1)
    assert engine.text("Jane a@example.org") == "[PERSON] [EMAIL_ADDRESS]"
    assert engine.text("Jane a@example.org") == "Jane [EMAIL_ADDRESS]"
    assert (engine.counts["model_calls"], engine.counts["model_skipped"]) == (1, 1)


def test_a_model_is_not_asked_about_names_and_numbers() -> None:
    model = _Model()
    engine = _with_model(model)
    engine.name("Jane.csv")
    engine.value([1, 2, 3])
    assert model.asked == []


def test_counts_of_engines_add_up() -> None:
    engines = [engine_of(), engine_of()]
    total = Counts()
    for engine in engines:
        engine.text("jane@example.org")
        total.add(Counts.from_dict(engine.counts))
    assert total.as_dict() == {**engines[0].counts, "values": 2, "categories": {"EMAIL_ADDRESS": 2}}


def test_threads_share_an_engine(engine: Redactor) -> None:
    threads = [threading.Thread(target=lambda: [engine.text("jane@example.org") for _ in range(50)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert engine.counts["values"] == 200


def test_nothing_heavy_is_imported_before_the_first_sweep() -> None:
    code = (
        "import sys; from redaction.redactor import Redactor;"
        "Redactor({'mode': 'redact'});"
        "sys.exit(bool({'redaction.search.finder', 'pyarrow'} & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


_ENGINE = engine_of()


def test_lines_swept_as_they_come_are_what_they_are_in_the_whole_text() -> None:
    lines = [f"Line {number} has Phone:\n202-555-{number:04d} or jane{number}@example.com\n" for number in range(200)]
    whole = "".join(lines)
    engine = engine_of()
    above = swept = ""
    for line in whole.splitlines(keepends=True):
        part, above = engine.lines(above, line)
        swept += part
    assert swept == engine.text(whole)
    assert "@" not in swept
