"""JSON Schemas in manifests: of a workflow's result, and of a model's answer. (contract 22.6, 24.13)."""

import json
from collections.abc import Iterator
from typing import Any, Final

from backend.workflows.manifests.content_checks import ContentChecks
from backend.workflows.manifests.nodes import Node, Problem
from backend.workflows.manifests.shapes import CheckedValue

_LARGEST_BYTES: Final = 32_768


def check_size(schema: Any) -> Any:
    """Returns the schema if it is small enough to be checked.

    Raises:
        ValueError: it is no object, or too large; the text is for a person.
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
"""A JSON Schema, which `schema_problems` checks further."""


def schema_problems(value: Any, node: Node, checks: ContentChecks) -> Iterator[Problem]:
    """Yields the problem of the schema in a document that is valid otherwise."""
    match value:
        case {"kind": "Workflow", "result": {"schema": dict(schema)}}:
            found = checks.schema_problem(schema, answer=False)
            line, field = node.line_of("result", "schema"), "result.schema"
        case {"kind": "Agent", "output_schema": dict(schema)}:
            found = checks.schema_problem(schema, answer=True)
            line, field = node.line_of("output_schema"), "output_schema"
        case _:
            return
    if found is not None:
        yield Problem(line, field, found)
