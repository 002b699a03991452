import json
from typing import Any

import pytest

from backend.services.workflows.manifests.loader import load_manifests
from tests.support.content_checks import UNBOUNDED
from tests.unit.backend.services.workflows.manifests.documents import problems

FORM = {"properties": {"note": {"type": "string", "maxLength": 200}}}


def workflow(**approval: Any) -> dict[str, Any]:
    return {"kind": "Workflow", "name": "w", "steps": [{"step": "a", "approval": {"title": "Well?", **approval}}]}


def value(**fields: Any) -> dict[str, Any]:
    return {"properties": {"v": fields}}


@pytest.mark.parametrize(
    ("approval", "wrong"),
    [
        ({"deadline_hours": 48, "on_deadline": "fail", "remind_hours": 0.5}, {}),
        ({"remind_hours": 24, "approvers": {"people": ["kim"]}, "form": FORM}, {}),
        ({"deadline_hours": 0}, {"deadline_hours": "must be a number from 0.001 to 2160"}),
        ({"deadline_hours": "two"}, {"deadline_hours": "must be a number from 0.001 to 2160"}),
        (
            {"deadline_hours": 1, "on_deadline": "approve"},
            {"on_deadline": "must be one of: reject, fail"},
        ),
        ({"on_deadline": "fail"}, {"on_deadline": "must not be fail without deadline_hours"}),
        (
            {"deadline_hours": 2, "remind_hours": 2},
            {"remind_hours": "must be less than deadline_hours, which is 2"},
        ),
        ({"approvers": {}}, {"approvers": "must name at least one role or person"}),
        (
            {"approvers": {"roles": ["viewer"]}},
            {"approvers.roles[0]": "must be one of: administrator, approver"},
        ),
        ({"form": {"properties": {}}}, {"form.properties": "must have at least one value"}),
        (
            {"form": {"properties": FORM["properties"], "type": "array"}},
            {"form.type": "must be one of: object"},
        ),
        (
            {"form": value(type="date")},
            {"form.properties.v.type": "must be one of: string, integer, number, boolean"},
        ),
        (
            {"form": value(type="boolean", enum=[True])},
            {"form.properties.v.enum": "is not a known field; known are: type, title, description"},
        ),
        (
            {"form": value(type="number", minimum=2, maximum=1)},
            {"form.properties.v.maximum": "must not be less than minimum"},
        ),
        (
            {"form": {**FORM, "required": ["other"]}},
            {"form.required[0]": "must name one of the properties: note"},
        ),
        (
            {"form": {"properties": {"2x": {"type": "boolean"}}}},
            {"form.properties.2x": "must have a name of letters, digits and underscores, not a digit first"},
        ),
        (
            {"form": {"properties": {f"v{n}": {"type": "boolean"} for n in range(21)}}},
            {"form.properties": "must be an object of at most 20 members"},
        ),
    ],
)
def test_each_mistake_names_the_field_and_what_is_allowed(approval: dict[str, Any], wrong: dict[str, str]) -> None:
    found = problems(workflow(**approval))
    assert {name.removeprefix("steps[0].approval."): reason for name, reason in found.items()} == wrong


@pytest.mark.parametrize("said", [{}, {"on_deadline": "reject", "deadline_hours": None, "form": None}])
def test_an_approval_of_before_approvals_had_an_end_is_unchanged(said: dict[str, Any]) -> None:
    [manifest] = load_manifests([("f", json.dumps(workflow(**said)))], UNBOUNDED)
    [step] = json.loads(manifest.definition)["steps"]
    assert step["approval"] == {"title": "Well?", "instructions": None}
