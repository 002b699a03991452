"""Forms of approvals: values are judged by their schema before a decision, and refused by name."""

import json
from typing import Any

import pytest

from tests.services.calls import RefusedError
from tests.services.runs.test_deadlines import state, waiting
from tests.services.runs.world import World

SCHEMA = {
    "type": "object",
    "properties": {
        "note": {"type": "string", "maxLength": 5},
        "amount": {"type": "integer", "minimum": 1},
        "paid": {"type": "boolean"},
        "currency": {"type": "string", "enum": ["EUR", "USD"]},
    },
    "required": ["amount"],
    "additionalProperties": False,
}


def approve(world: World, form: str | None, *, approve: bool = True, schema: Any = SCHEMA) -> Any:
    run_id, approval_id = waiting(world, form_schema=schema)
    world.decide(approval_id, approve=approve, **({} if form is None else {"form": form}))
    return run_id, state(world, approval_id)


def test_values_that_fit_are_kept_and_handed_on(world: World) -> None:
    run_id, row = approve(world, '{"amount": 3, "note": "ok"}')
    assert row.form == '{"amount":3,"note":"ok"}'
    (step,) = world.dump(f"steps WHERE run_id = '{run_id}' AND step = 'review'")
    value = json.loads(step.value)
    assert value.pop("decided_at").startswith("2026-")
    assert value == {"decision": "approved", "comment": None, "form": {"amount": 3, "note": "ok"}}
    world.begin(run_id)
    decided = json.loads(world.events(run_id).events[1].data)
    assert decided["form"] == {"amount": 3, "note": "ok"}
    assert world.count("audit_records", "details LIKE '%amount%'") == 0


@pytest.mark.parametrize(
    ("form", "problems"),
    [
        (None, {"form.amount": "is required"}),
        ("{}", {"form.amount": "is required"}),
        ("[1]", {"form": "must be an object"}),
        ('{"amount": 0}', {"form.amount": "must fit the schema: 0 is less than the minimum of 1"}),
        (
            '{"amount": 1, "note": "too long", "currency": "GBP", "extra": 1}',
            {
                "form.note": 'must fit the schema: "too long" is longer than 5 characters',
                "form.currency": 'must fit the schema: "GBP" is not one of "EUR" or "USD"',
                "form.extra": "is no field of this form",
            },
        ),
        ('{"amount": 1, "paid": "yes"}', {"form.paid": 'must fit the schema: "yes" is not of type "boolean"'}),
        (json.dumps({"note": "x" * 9_000}), {"form": "must have at most 8,192 bytes as JSON"}),
    ],
)
def test_values_that_do_not_fit_decide_nothing(world: World, form: str | None, problems: dict[str, str]) -> None:
    _, approval_id = waiting(world, form_schema=SCHEMA)
    with pytest.raises(RefusedError) as refused:
        world.decide(approval_id, approve=True, **({} if form is None else {"form": form}))
    assert refused.value.reason == "invalid_request"
    assert refused.value.problems == problems
    assert state(world, approval_id).state == "pending"


@pytest.mark.parametrize("form", ["{", '{"amount": 1, "amount": 2}', "NaN"])
def test_a_form_that_is_no_json_is_refused(world: World, form: str) -> None:
    _, approval_id = waiting(world, form_schema=SCHEMA)
    with pytest.raises(RefusedError) as refused:
        world.decide(approval_id, approve=True, form=form)
    assert refused.value.reason == "invalid_request"
    assert list(refused.value.problems) == ["form"]


def test_a_rejection_needs_no_values_and_keeps_those_that_fit(world: World) -> None:
    _, row = approve(world, None, approve=False)
    assert (row.state, row.form) == ("rejected", None)
    _, row = approve(world, '{"amount":2}', approve=False)
    assert row.form == '{"amount":2}'
    with pytest.raises(RefusedError):
        approve(world, '{"amount":0}', approve=False)


def test_values_for_an_approval_without_a_form_are_refused(world: World) -> None:
    with pytest.raises(RefusedError) as refused:
        approve(world, "{}", schema=None)
    assert refused.value.problems == {"form": "must be absent: this approval has no form"}
