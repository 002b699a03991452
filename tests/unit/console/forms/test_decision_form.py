import json

import pytest

from console.forms.decision_form import PREFIX, form_fields, form_problems, form_values, sent_texts
from contract.refusals import Refusal

SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {
            "note": {"type": "string", "title": "Note for finance", "description": "Goes into the ledger."},
            "code": {"type": "string", "minLength": 2, "maxLength": 8},
            "amount": {"type": "integer", "minimum": 1, "maximum": 1_000},
            "rate": {"type": "number", "minimum": 0.0, "maximum": 0.5},
            "paid": {"type": "boolean"},
            "currency": {"type": "string", "enum": ["EUR", "USD"]},
        },
        "required": ["amount"],
    }
)


def test_each_value_is_a_field_of_its_type_with_its_bounds_in_words() -> None:
    fields = {each.name: each for each in form_fields(SCHEMA, {}, {})}
    assert list(fields) == [PREFIX + name for name in json.loads(SCHEMA)["properties"]]
    assert {name.removeprefix(PREFIX): (each.label, each.kind, each.help) for name, each in fields.items()} == {
        "note": ("Note for finance", "area", "Goes into the ledger. Optional."),
        "code": ("code", "text", "Optional, at least 2 characters, at most 8 characters."),
        "amount": ("amount", "text", "A whole number, at least 1, at most 1,000."),
        "rate": ("rate", "text", "Optional, a number, at least 0, at most 0.5."),
        "paid": ("paid", "select", "Optional."),
        "currency": ("currency", "select", "Optional."),
    }
    assert [each.name for each in fields.values() if each.required] == ["form.amount"]
    assert fields["form.currency"].options == [("", "choose"), ("EUR", "EUR"), ("USD", "USD")]
    assert fields["form.paid"].options == [("", "choose"), ("true", "yes"), ("false", "no")]


def test_texts_and_problems_stay_with_their_fields() -> None:
    fields = form_fields(SCHEMA, {"amount": "many"}, {"form.amount": "must be a number"})
    amount = next(each for each in fields if each.name == "form.amount")
    assert (amount.value, amount.problem) == ("many", "must be a number")


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        ({"note": "x", "code": ""}, {"note": "x"}),
        ({"note": "7", "paid": "true"}, {"note": "7", "paid": True}),
        ({"paid": "false", "amount": "-3", "rate": "2"}, {"paid": False, "amount": -3, "rate": 2}),
        ({"rate": "2.5", "amount": "2.5"}, {"rate": 2.5, "amount": "2.5"}),
        ({"rate": "many", "paid": "perhaps"}, {"rate": "many", "paid": "perhaps"}),
        ({"rate": "inf", "amount": "9" * 400}, {"rate": "inf", "amount": "9" * 400}),
        ({"rate": "nan"}, {"rate": "nan"}),
        ({"unknown": "1"}, {"unknown": "1"}),
    ],
)
def test_a_text_becomes_a_value_of_its_type_or_stays_text_for_the_service_to_refuse(
    texts: dict[str, str], values: dict[str, object]
) -> None:
    assert json.loads(form_values(SCHEMA, texts), parse_constant=pytest.fail) == values


def test_only_fields_of_the_form_are_read_from_what_was_sent() -> None:
    assert sent_texts({"form.note": [" a "], "comment": ["b"], "form.code": []}) == {"note": "a"}


@pytest.mark.parametrize(
    ("details", "problems"),
    [
        ([{"name": "form.note", "reason": "is required"}], {"form.note": "is required"}),
        ([{"name": "form", "reason": "is large"}], {"form": "is large"}),
        ([{"name": "approval_id", "reason": "is decided"}], {}),
        (None, {}),
    ],
)
def test_a_refusal_about_the_form_names_its_fields(
    details: list[dict[str, str]] | None, problems: dict[str, str]
) -> None:
    assert form_problems(Refusal("invalid_request", details=details)) == problems
    assert form_problems(Refusal("forbidden", details=details)) == {}
