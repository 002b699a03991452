"""Fields of approvals in workflows: their texts, deadline, approvers and form (docs/flows.md)."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from backend.common.json_text import JsonMapping
from backend.common.states import DeadlineAction
from backend.resources.schemas.expression_scope import LONGEST_EXPRESSION
from backend.services.workflows.manifests.names import MOST_FORM_BYTES
from backend.services.workflows.manifests.records import LONG_TEXT, Field, ListOf, MapOf, Record, Variant
from backend.services.workflows.manifests.shapes import Number, OneOf, Text, Whole
from contract.roles import DECIDING_ROLES

_HOURS: Final = Number(0.001, 24 * 90)
_LONGEST_NAME: Final = 64
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LARGEST: Final = 2**53 - 1
"""Largest integer that every reader of JSON keeps exact."""

_ANY_VALUE: Final[Mapping[str, Field]] = {
    "title": Field(Text(200), about="Its label in the console; its name without one.", example="Note for finance"),
    "description": Field(Text(1_000), about="Help below it.", example="Goes into the ledger."),
}


def _value(*, enum: object = None, **more: Field) -> Record:
    """Returns the fields of a type of form values, common fields first; `enum` is an example of an allowed value."""
    chosen = {}
    if enum is not None:
        member = Text(200) if isinstance(enum, str) else more["minimum"].shape
        chosen["enum"] = Field(
            ListOf(member, most=50, least=1, unique=True), about="The allowed values.", example=[enum]
        )
    return Record({**_ANY_VALUE, **chosen, **more})


_INTEGER: Final = Whole(-_LARGEST, _LARGEST)
_NUMBER: Final = Number(-1e15, 1e15)
_LENGTH: Final = Whole(0, MOST_FORM_BYTES)

FORM_VALUES: Final[Mapping[str, Record]] = {
    "string": _value(
        enum="EUR",
        minLength=Field(_LENGTH, about="Fewest characters.", example=1),
        maxLength=Field(_LENGTH, about="Most characters.", example=200),
    ),
    "integer": _value(
        enum=3,
        minimum=Field(_INTEGER, about="Least value.", example=0),
        maximum=Field(_INTEGER, about="Greatest value.", example=10),
    ),
    "number": _value(
        enum=0.5,
        minimum=Field(_NUMBER, about="Least value.", example=0.0),
        maximum=Field(_NUMBER, about="Greatest value.", example=1.0),
    ),
    "boolean": _value(),
}

FORM: Final = Record(
    {
        "type": Field(OneOf("object"), default="object", about="Always `object`.", example="object"),
        "properties": Field(
            MapOf(Variant("type", FORM_VALUES, about="Type of the value."), most=20, longest=_LONGEST_NAME),
            required=True,
            about="The values by name: letters, digits and underscores, not a digit first.",
            example={"note": {"type": "string", "maxLength": 200}},
        ),
        "required": Field(
            ListOf(Text(_LONGEST_NAME), most=20, unique=True),
            default=[],
            about="Names of the values without which nobody can approve.",
            example=["note"],
        ),
    }
)

APPROVERS: Final = Record(
    {
        "roles": Field(
            ListOf(OneOf(*DECIDING_ROLES), most=len(DECIDING_ROLES), unique=True),
            default=[],
            about="Roles of people who may decide it.",
            example=["approver"],
        ),
        "people": Field(
            ListOf(
                Text(
                    100,
                    pattern=re.compile(r"[a-z0-9][a-z0-9._@-]*"),
                    must_be="the name of a person: a-z 0-9 . _ @ -, the first a letter or digit",
                ),
                most=100,
                unique=True,
            ),
            default=[],
            about="Names of people who may decide it; they need not exist yet.",
            example=["kim"],
        ),
    }
)

APPROVAL: Final = Record(
    {
        "title": Field(Text(200), required=True, about="What is asked, in a few words.", example="Publish the report?"),
        "instructions": Field(LONG_TEXT, about="What to look at before deciding.", example="Compare the totals."),
        "summary": Field(
            Text(LONGEST_EXPRESSION),
            about="What people see beside the instructions, an expression in CEL over what the step needs.",
            example="'Total: ' + string(needs.total.sum)",
        ),
        "deadline_hours": Field(
            _HOURS,
            about="Time from the request until it expires; without it, it waits without an end.",
            example=48.0,
        ),
        "on_deadline": Field(
            OneOf(*DeadlineAction),
            default=DeadlineAction.REJECT.value,
            about="How the deadline ends it: `reject` rejects without a person, `fail` fails the run without one.",
            example="fail",
        ),
        "remind_hours": Field(
            _HOURS,
            about="Time from the request until people are reminded, once; less than `deadline_hours`.",
            example=24.0,
        ),
        "approvers": Field(
            APPROVERS,
            about="The only people who may decide it, of those whose role lets them decide any.",
            example={"roles": ["approver"], "people": ["kim"]},
        ),
        "form": Field(
            FORM,
            about="JSON Schema of values that a person fills in to approve; later steps read them.",
            example={"type": "object", "properties": {"note": {"type": "string", "maxLength": 200}}},
        ),
    }
)


LATER_FIELDS: Final = ("summary", "deadline_hours", "on_deadline", "remind_hours", "approvers", "form")
"""Fields that earlier releases lacked: a definition has them only if they differ from the default."""


def approval_problems(approval: JsonMapping) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yields contradictions between the fields of an approval, each as path and reason."""
    deadline, reminder = approval.get("deadline_hours"), approval.get("remind_hours")
    if deadline is not None and reminder is not None and reminder >= deadline:
        yield ("remind_hours",), f"must be less than deadline_hours, which is {deadline:g}"
    if approval.get("on_deadline") == DeadlineAction.FAIL and "deadline_hours" in approval and deadline is None:
        yield ("on_deadline",), "must not be fail without deadline_hours"
    approvers = approval.get("approvers")
    if approvers is not None and not approvers.get("roles") and not approvers.get("people"):
        yield ("approvers",), "must name at least one role or person"
    form = approval.get("form")
    if form is not None:
        yield from ((("form", *path), reason) for path, reason in _form_problems(form))


def _form_problems(form: JsonMapping) -> Iterator[tuple[tuple[str | int, ...], str]]:
    properties = form.get("properties")
    if properties is None:
        return
    if not properties:
        yield ("properties",), "must have at least one value"
    for name, value in properties.items():
        if not _NAME.fullmatch(name):
            yield ("properties", name), "must have a name of letters, digits and underscores, not a digit first"
        for low, high in (("minimum", "maximum"), ("minLength", "maxLength")):
            least, most = (value or {}).get(low), (value or {}).get(high)
            if least is not None and most is not None and least > most:
                yield ("properties", name, high), f"must not be less than {low}"
    for position, name in enumerate(form.get("required") or ()):
        if name and name not in properties:
            known = ", ".join(properties)
            yield ("required", position), f"must name one of the properties: {known}"
