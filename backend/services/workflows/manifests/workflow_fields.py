"""Fields of the kind Workflow with their bounds (contract 24.1, 22.6)."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from backend.resources.schemas.content_checks import ContentChecks
from backend.resources.schemas.expression_scope import LONGEST_EXPRESSION
from backend.services.workflows.manifests.approvals import APPROVAL
from backend.services.workflows.manifests.nodes import DocumentNode, Problem
from backend.services.workflows.manifests.publishing import PUBLICATION_FIELDS
from backend.services.workflows.manifests.records import (
    HANDLE,
    NAME,
    Field,
    ListOf,
    MapOf,
    Record,
    Variant,
    name_field,
)
from backend.services.workflows.manifests.schedules import SCHEDULES
from backend.services.workflows.manifests.shapes import Anything, CheckedValue, Flag, Number, OneOf, Text, Whole
from backend.services.workflows.parameters import LONGEST_PATTERN, check_pattern
from backend.services.workflows.pii_policy import FIELDS as POLICY_FIELDS

_LARGEST_BYTES: Final = 32_768


def check_size(schema: Any) -> Any:
    """Returns the schema if it is small enough to be checked.

    Raises:
        ValueError: the schema is no object, or too large; the text is for a person.
    """
    if not isinstance(schema, dict):
        raise ValueError("must be a JSON Schema: an object")  # noqa: TRY004 - a value that is not allowed, like the others
    try:
        size = len(json.dumps(schema, ensure_ascii=False, separators=(",", ":")).encode())
    except RecursionError:
        raise ValueError("must be a JSON Schema that is not nested too deeply") from None
    if size > _LARGEST_BYTES:
        raise ValueError(f"must have at most {_LARGEST_BYTES:,} bytes as JSON")
    return schema


JSON_SCHEMA: Final = CheckedValue(check_size, {"type": "object"})
"""A JSON Schema within its size limit; `schema_problems` validates its content."""


def schema_problems(value: Any, node: DocumentNode, checks: ContentChecks) -> Iterator[Problem]:
    """Yields the problem of the JSON Schema in a document, if it has an invalid one."""
    match value:
        case {"kind": "Workflow", "result": {"schema": dict(schema)}}:
            found = checks.schema_problem(schema, answer=False)
            line, field = node.line_of("result", "schema"), "result.schema"
        case {"kind": "Agent", "output_schema": dict(schema)}:
            found = checks.schema_problem(schema, answer=True)
            line, field = node.line_of("output_schema"), "output_schema"
        case {"kind": "Agent", "input_schema": dict(schema)}:
            found = checks.schema_problem(schema, answer=True)
            line, field = node.line_of("input_schema"), "input_schema"
        case _:
            return
    if found is not None:
        yield Problem(line, field, found)


GIB: Final = 2**30
MOST_CONNECTORS: Final = 256


def _pattern(value: object) -> str:
    if isinstance(value, str) and value:
        return check_pattern(value)
    raise ValueError("must be a regular expression")


_ANY_PARAMETER: Final[Mapping[str, Field]] = {
    "name": Field(
        Text(64, pattern=re.compile(r"[a-z][a-z0-9_]{0,63}"), must_be="of the form ^[a-z][a-z0-9_]{0,63}$"),
        required=True,
        about="Name by which a start gives the value, unique within the workflow.",
        example="language",
    ),
    "description": Field(Text(1_000), about="What it is for.", example="Language of the digest."),
    "required": Field(Flag(), default=False, about="Whether a start must give it.", example=True),
    "default": Field(Anything(), about="Value where a start gives none; it must fit the other fields."),
}


def _parameter(*, default: object, **more: Field) -> Record:
    """Returns the fields of a type of parameters, common fields first."""
    return Record({**_ANY_PARAMETER, "default": replace(_ANY_PARAMETER["default"], example=default), **more})


def _enum(*example: object) -> dict[str, Field]:
    shape = ListOf(Anything(), most=1_000, least=1)
    return {"enum": Field(shape, about="The allowed values, each of the type.", example=list(example))}


def _bounds(least: object, most: object) -> dict[str, Field]:
    return {
        "minimum": Field(Anything(), about="Least value, of the type.", example=least),
        "maximum": Field(Anything(), about="Greatest value, of the type.", example=most),
    }


PARAMETER_TYPES: Final[Mapping[str, Record]] = {
    "string": _parameter(
        default="en",
        **_enum("en", "fr"),
        min_length=Field(Whole(0, 1_048_576), about="Fewest characters.", example=2),
        max_length=Field(Whole(0, 1_048_576), about="Most characters.", example=8),
        pattern=Field(
            CheckedValue(_pattern, {"type": "string", "minLength": 1, "maxLength": LONGEST_PATTERN}),
            about="Regular expression in the syntax of RE2 that the whole value matches.",
            example="[a-z]{2}",
        ),
    ),
    "integer": _parameter(default=3, **_enum(1, 3, 5), **_bounds(1, 10)),
    "number": _parameter(default=0.5, **_enum(0.25, 0.5), **_bounds(0, 1)),
    "boolean": _parameter(default=True),
    "date": _parameter(
        default="2026-09-24", **_enum("2026-09-24", "2026-12-24"), **_bounds("2026-01-01", "2026-12-31")
    ),
    "json": _parameter(default={"columns": ["id"]}),
    "s3_prefix": _parameter(
        default="s3://company-inbox/incoming/",
        connector=Field(NAME, required=True, about="Name of the connector that reads the objects.", example="inbox"),
        max_objects=Field(Whole(1, 5_000), default=500, about="Most objects below the prefix.", example=2_000),
        max_bytes=Field(Whole(1, 20 * GIB), default=2 * GIB, about="Most bytes of all of them.", example=GIB),
    ),
}

SETTINGS: Final = Record(
    {
        "parallel_steps": Field(
            Whole(1, 10), default=3, about="Most steps of a run that execute at the same time.", example=5
        ),
        "max_run_hours": Field(
            Number(0.25, 168, step=0.25, null_means="no limit"),
            about="Time limit of a run, the wait for approvals included; null means none.",
            example=1.5,
        ),
    }
)

BUDGET: Final = Record(
    {
        "tokens": Field(
            Whole(1, 10**12), about="Most input and output tokens of a run's own steps together.", example=200_000
        ),
        "cost": Field(
            Number(0.000001, 1_000_000),
            about="Most US dollars that they may cost, by known prices.",
            example=1.5,
        ),
    }
)

FAILURE_TYPE: Final = Text(
    200,
    pattern=re.compile(r"[A-Za-z_][A-Za-z0-9_.]*"),
    must_be="the type of a failure, as step.failed names it: TimeLimit, or the name of an exception",
)
"""Failure type of a step, as in `on` and `not_on`."""

RETRY: Final = Record(
    {
        "attempts": Field(Whole(1, 10), required=True, about="Most attempts, the first included.", example=3),
        "backoff_seconds": Field(
            Number(0, 300), default=1.0, about="Wait after the first failed attempt.", example=2.5
        ),
        "multiplier": Field(
            Number(1, 10), default=2.0, about="Factor by which each later wait is longer.", example=1.5
        ),
        "on": Field(
            ListOf(FAILURE_TYPE, most=20, unique=True),
            default=[],
            about="Types of failures after which it is tried again; any without it.",
            example=["TimeoutError"],
        ),
        "not_on": Field(
            ListOf(FAILURE_TYPE, most=20, unique=True),
            default=[],
            about="Types of failures after which it is not tried again.",
            example=["ValueError"],
        ),
    }
)

EXPRESSION: Final = Text(LONGEST_EXPRESSION)

_WORK: Final[Mapping[str, Field]] = {
    "step": Field(HANDLE, required=True, about="Handle, unique within the workflow.", example="count-words"),
    "name": Field(NAME, about="Name for people; the handle without one.", example="Count the words"),
    "agent": Field(
        NAME,
        about="Name of the agent that does the work; either this, `approval` or `workflow`.",
        example="word-counter",
    ),
    "environment": Field(NAME, about="Name of the environment; one with the defaults without it.", example="standard"),
    "connectors": Field(
        ListOf(NAME, most=MOST_CONNECTORS, unique=True),
        default=[],
        about="Names of the connectors that the agent may use.",
        example=["inbox"],
    ),
    "outputs": Field(
        Flag(),
        default=True,
        about="Whether its files become outputs; `false` leaves them to later steps alone. Of agents only.",
        example=False,
    ),
    "retry": Field(
        RETRY, about="How often the step is tried again; once without it. Of agents only.", example={"attempts": 3}
    ),
    "timeout_seconds": Field(
        Whole(1, 900),
        about="Time that one attempt may take, at most that of the environment. Of agents only.",
        example=120,
    ),
}

STEP: Final = Record(
    {
        **{name: _WORK[name] for name in ("step", "name", "agent")},
        "approval": Field(
            APPROVAL, about="Makes the step a gate at which a person decides.", example={"title": "Publish the report?"}
        ),
        "workflow": Field(NAME, about="Name of a workflow that runs as the step, as a child.", example="Invoice"),
        "version": Field(Whole(1, 2**31 - 1), about="Version of that workflow; the active one without it.", example=3),
        "parameters": Field(
            MapOf(Anything(), most=1_000, longest=64),
            about="Parameters of the child: values, or text that begins with `=` and is an expression.",
            example={"total": "=needs.list.total"},
        ),
        **{name: _WORK[name] for name in ("environment", "connectors")},
        "needs": Field(
            ListOf(HANDLE, most=20, unique=True),
            default=[],
            about="Handles of the steps that must have ended before, with a status that `accept` has.",
            example=["count-words"],
        ),
        "when": Field(
            EXPRESSION,
            about="Condition, an expression in CEL: where it is false, the step is skipped.",
            example='needs["count-words"].words > 100',
        ),
        "accept": Field(
            ListOf(OneOf("completed", "failed", "skipped"), most=3, least=1, unique=True),
            about="Statuses of its needs with which it runs; `completed` alone without it.",
            example=["completed", "skipped"],
        ),
        "optional": Field(
            Flag(),
            default=False,
            about="Whether the run goes on without it when it fails; not for approvals.",
            example=True,
        ),
        "for_each": Field(
            EXPRESSION,
            about="A list, an expression in CEL: the step runs once for each of its items.",
            example="needs.list.files",
        ),
        "max_items": Field(Whole(1, 1_000), about="Most items of `for_each`; 1,000 without it.", example=200),
        "max_parallel": Field(
            Whole(1, 10), about="Most items at the same time, within `settings.parallel_steps`.", example=5
        ),
        "on_item_failure": Field(
            OneOf("fail", "collect"),
            about="`fail`, the default: the first failed item fails the step; `collect`: its error is its value.",
            example="collect",
        ),
        **{name: _WORK[name] for name in ("outputs", "retry", "timeout_seconds")},
    }
)

CLEANUP_STEP: Final = Record(dict(_WORK))
"""A step of `on_failure` or `always`, which runs after all other steps."""

POLICY: Final = Record(
    {
        name: Field(
            CheckedValue(field.normalise, field.schema), default=field.default, about=field.about, example=field.example
        )
        for name, field in POLICY_FIELDS.items()
    }
)

RESULT: Final = Record(
    {
        "step": Field(HANDLE, required=True, about="The step whose return value is the result.", example="count-words"),
        "schema": Field(
            JSON_SCHEMA,
            about="JSON Schema that the result is judged by; it refers only to itself.",
            example={"type": "object", "required": ["words"]},
        ),
        "schema_version": Field(Text(64), about="Label of the schema for callers.", example="2"),
    }
)

PUBLICATION: Final = Record(
    {
        "knowledge_graph": Field(NAME, required=True, about="Name of the knowledge graph.", example="company-facts"),
        "wait_seconds": Field(
            Whole(0, 3_600), default=60, about="How long the run waits for it to land, before a warning.", example=0
        ),
        "steps": Field(
            ListOf(HANDLE, most=20, least=1, unique=True),
            about="Handles of the steps whose files are published; all without it.",
            example=["extract"],
        ),
        **PUBLICATION_FIELDS,
    }
)

WORKFLOW: Final = Record(
    {
        "name": name_field("Text digest"),
        "description": Field(
            Text(1_000, shortest=0),
            default="",
            about="What it does, for callers.",
            example="Counts the words of a text.",
        ),
        "status": Field(
            OneOf("draft", "active", "inactive"),
            about="Whether it can be started; without it a new workflow is a draft, and another keeps its status.",
            example="active",
        ),
        "parameters": Field(
            ListOf(Variant("type", PARAMETER_TYPES, about="Type of the parameter."), most=1_000),
            default=[],
            about="What a start may give.",
            example=[{"name": "language", "type": "string"}],
        ),
        "settings": Field(
            SETTINGS, default=SETTINGS.defaults(), about="How its runs execute.", example={"parallel_steps": 5}
        ),
        "budget": Field(
            BUDGET,
            about="Most use of models by a run. Once it is passed, the step that calls a model again fails.",
            example={"tokens": 200_000},
        ),
        "steps": Field(
            ListOf(STEP, most=20),
            default=[],
            about="What a run does, as a graph without cycles.",
            example=[{"step": "count-words", "agent": "word-counter"}],
        ),
        "on_interruption": Field(
            OneOf("fail", "resume"),
            default="fail",
            about="What follows a run that loses its worker: nothing, or a run that resumes it, up to three in a row.",
            example="resume",
        ),
        "on_failure": Field(
            ListOf(CLEANUP_STEP, most=20),
            default=[],
            about="Steps that run after a run has failed, before its end is recorded.",
            example=[{"step": "alarm", "agent": "notifier"}],
        ),
        "always": Field(
            ListOf(CLEANUP_STEP, most=20),
            default=[],
            about="Steps that run after a run, however it ended, and before its end is recorded.",
            example=[{"step": "clean", "agent": "cleaner"}],
        ),
        "pii_policy": Field(
            POLICY, default=POLICY.defaults(), about="What is done about personal data.", example={"mode": "redact"}
        ),
        "result": Field(RESULT, about="Where the result of a run comes from.", example={"step": "count-words"}),
        "schedules": SCHEDULES,
        "publish": Field(
            ListOf(PUBLICATION, most=20),
            default=[],
            about="Which knowledge graphs get files of a run.",
            example=[{"knowledge_graph": "company-facts"}],
        ),
    }
)
