"""Fields of each kind of manifest with their bounds (contract 24.1, 22.6)."""

import re
from collections.abc import Mapping
from typing import Final

from backend.workflows.manifests.publishing import GRAPH_STORES, PUBLICATION_FIELDS
from backend.workflows.manifests.python_code import PythonCode
from backend.workflows.manifests.result_schema import check_size
from backend.workflows.manifests.shapes import (
    HTTP_ADDRESS,
    SECRET_NAME,
    Anything,
    Checked,
    Field,
    Flag,
    ListOf,
    OneOf,
    Record,
    Text,
    Variant,
    Whole,
)
from backend.workflows.patterns import check_pattern
from backend.workflows.pii_policy import FIELDS as POLICY_FIELDS

GIB: Final = 2**30
MOST_OF_A_KIND: Final = 256
LARGEST_DEFINITION_BYTES: Final = 8 * 2**20

_NAME: Final = Text(
    80,
    pattern=re.compile(r"[^\s\x00-\x1f\x7f](?:[^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f])?"),
    must_be="one line of text without blanks around it",
)
_LONG_TEXT: Final = Text(100_000)
_HANDLE: Final = Text(128, pattern=re.compile(r"[a-z0-9-]+"), must_be="lowercase letters, digits and dashes")


def _hours(value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0.25 <= value <= 168 and value * 4 % 1 == 0:
        return float(value)
    raise ValueError("must be from 0.25 to 168 in steps of 0.25, or null for no limit")


def _pattern(value: object) -> str:
    if isinstance(value, str) and value:
        return check_pattern(value)
    raise ValueError("must be a regular expression")


def _number(least: float, most: float) -> Checked:
    def check(value: object) -> float:
        if isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most:
            return float(value)
        raise ValueError(f"must be a number from {least:g} to {most:g}")

    return Checked(check)


ENVIRONMENT: Final = Record(
    {
        "name": Field(_NAME, required=True),
        "memory_mb": Field(Whole(1_769, 3_008), default=2_048),
        "timeout_seconds": Field(Whole(1, 900), default=900),
        "workspace_mb": Field(Whole(512, 3_008), default=512),
        "network": Field(OneOf("none", "full"), default="none"),
        "status": Field(OneOf("active", "inactive"), default="active"),
    }
)

_S3_CONNECTOR: Final = Record(
    {
        "name": Field(_NAME, required=True),
        "bucket": Field(
            Text(63, 3, re.compile(r"[a-z0-9][a-z0-9.-]*[a-z0-9]"), "lowercase letters, digits, dots and dashes"),
            required=True,
        ),
        # Prefixes end with a slash, because `in` would allow `internal/` too.
        "prefixes": Field(
            ListOf(
                Text(1_024, pattern=re.compile(r"(?!/)(?!(?:.*/)?\.\.?/)(?s:.*)/"), must_be="a prefix as incoming/"),
                most=100,
                unique=True,
            ),
            default=[],
        ),
        "endpoint_url": Field(HTTP_ADDRESS),
        # A secret with an access key; without one the credentials of the process are used.
        "secret": Field(SECRET_NAME),
        "role_arn": Field(Text(2_048, 20, re.compile(r"arn:[a-z-]+:iam::[0-9]{12}:role/[!-~]+"), "the ARN of a role")),
    }
)

AGENT_TYPES: Final[Mapping[str, Record]] = {
    "python": Record({"name": Field(_NAME, required=True), "code": Field(PythonCode(), required=True)}),
    "llm": Record(
        {
            "name": Field(_NAME, required=True),
            "model": Field(
                Text(200, pattern=re.compile(r"[a-z0-9-]+:[!-~]+"), must_be="a model as openai:gpt-5"), required=True
            ),
            "instructions": Field(_LONG_TEXT, required=True),
            "api_key": Field(SECRET_NAME),
            "base_url": Field(HTTP_ADDRESS),
            "output_schema": Field(Checked(check_size)),
            "tools": Field(ListOf(OneOf("inputs", "files", "connectors"), most=3, unique=True), default=[]),
            "max_tokens": Field(Whole(1, 1_000_000)),
            "temperature": Field(_number(0, 2)),
            "request_timeout_seconds": Field(Whole(1, 900)),
            "stream": Field(Flag(), default=False),
        }
    ),
}

CONNECTOR_TYPES: Final[Mapping[str, Record]] = {"s3": _S3_CONNECTOR}

KNOWLEDGE_GRAPH_STORES: Final[Mapping[str, Record]] = {
    store: Record({"name": Field(_NAME, required=True), **record.fields}) for store, record in GRAPH_STORES.items()
}

_ANY_PARAMETER: Final[Mapping[str, Field]] = {
    "name": Field(
        Text(64, pattern=re.compile(r"[a-z][a-z0-9_]{0,63}"), must_be="of the form ^[a-z][a-z0-9_]{0,63}$"),
        required=True,
    ),
    "description": Field(Text(1_000)),
    "required": Field(Flag(), default=False),
    "default": Field(Anything()),
}
_ENUM: Final = {"enum": Field(ListOf(Anything(), most=1_000, least=1))}
_BOUNDS: Final = {"minimum": Field(Anything()), "maximum": Field(Anything())}
_LENGTHS: Final = {"min_length": Field(Whole(0, 1_048_576)), "max_length": Field(Whole(0, 1_048_576))}

PARAMETER_TYPES: Final[Mapping[str, Record]] = {
    "string": Record({**_ANY_PARAMETER, **_ENUM, **_LENGTHS, "pattern": Field(Checked(_pattern))}),
    "integer": Record({**_ANY_PARAMETER, **_ENUM, **_BOUNDS}),
    "number": Record({**_ANY_PARAMETER, **_ENUM, **_BOUNDS}),
    "boolean": Record(_ANY_PARAMETER),
    "date": Record({**_ANY_PARAMETER, **_ENUM, **_BOUNDS}),
    "json": Record(_ANY_PARAMETER),
    "s3_prefix": Record(
        {
            **_ANY_PARAMETER,
            "connector": Field(_NAME, required=True),
            "max_objects": Field(Whole(1, 5_000), default=500),
            "max_bytes": Field(Whole(1, 20 * GIB), default=2 * GIB),
        }
    ),
}

_SETTINGS: Final = Record(
    {
        "parallel_steps": Field(Whole(1, 10), default=3),
        "max_run_hours": Field(Checked(_hours)),
    }
)

_APPROVAL: Final = Record({"title": Field(Text(200), required=True), "instructions": Field(_LONG_TEXT)})


_RETRY: Final = Record(
    {
        "attempts": Field(Whole(1, 10), required=True),
        "backoff_seconds": Field(_number(0, 300), default=1.0),
        "multiplier": Field(_number(1, 10), default=2.0),
    }
)

_STEP: Final = Record(
    {
        "step": Field(_HANDLE, required=True),
        "name": Field(_NAME),
        "agent": Field(_NAME),
        "approval": Field(_APPROVAL),
        "environment": Field(_NAME),
        "connectors": Field(ListOf(_NAME, most=MOST_OF_A_KIND, unique=True), default=[]),
        "needs": Field(ListOf(_HANDLE, most=20, unique=True), default=[]),
        "optional": Field(Flag(), default=False),
        "retry": Field(_RETRY),
    }
)

_POLICY: Final = Record(
    {name: Field(Checked(field.normalise), default=field.default) for name, field in POLICY_FIELDS.items()}
)

_RESULT: Final = Record(
    {
        "step": Field(_HANDLE, required=True),
        "schema": Field(Checked(check_size)),
        "schema_version": Field(Text(64)),
    }
)

_PUBLICATION: Final = Record(
    {
        "knowledge_graph": Field(_NAME, required=True),
        "wait_seconds": Field(Whole(0, 3_600), default=60),
        "steps": Field(ListOf(_HANDLE, most=20, least=1, unique=True)),
        **PUBLICATION_FIELDS,
    }
)

WORKFLOW: Final = Record(
    {
        "name": Field(_NAME, required=True),
        "description": Field(Text(1_000, shortest=0), default=""),
        "status": Field(OneOf("draft", "active", "inactive")),
        "parameters": Field(ListOf(Variant("type", PARAMETER_TYPES), most=1_000), default=[]),
        "settings": Field(_SETTINGS, default=_SETTINGS.defaults()),
        "steps": Field(ListOf(_STEP, most=20), default=[]),
        "pii_policy": Field(_POLICY, default=_POLICY.defaults()),
        "result": Field(_RESULT),
        "publish": Field(ListOf(_PUBLICATION, most=20), default=[]),
    }
)


KINDS: Final[Mapping[str, Record | Variant]] = {
    "Environment": ENVIRONMENT,
    "Connector": Variant("type", CONNECTOR_TYPES),
    "Agent": Variant("type", AGENT_TYPES),
    "KnowledgeGraph": Variant("store", KNOWLEDGE_GRAPH_STORES, default="folder"),
    "Workflow": WORKFLOW,
}

DOCUMENT: Final = Variant("kind", KINDS)

RESOURCE_KINDS: Final[Mapping[str, str]] = {
    "Environment": "environment",
    "Connector": "connector",
    "Agent": "agent",
    "KnowledgeGraph": "knowledge_graph",
}
"""Kinds of resources in their table, by kind in manifests."""

MANIFEST_KINDS: Final[Mapping[str, str]] = {kind: manifest_kind for manifest_kind, kind in RESOURCE_KINDS.items()}
"""Kinds of resources in manifests, by kind in their table."""
