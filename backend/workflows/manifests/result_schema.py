"""The JSON Schemas of manifests: of a workflow's result, and of a model's answer. (SPEC.md, product limits: 32 KB)."""

import json
from collections.abc import Iterator
from typing import Any, Final, Protocol

from backend.workflows.manifests.nodes import Node, Problem

_LARGEST_BYTES: Final = 32_768


class SchemaCheck(Protocol):
    """Checks a schema within bounds of time and memory; see `SchemaJudge.schema_problem`."""

    def __call__(self, schema: Any, *, answer: bool) -> str | None:
        """What is wrong with a schema, `answer` for that of a model's answer; None where nothing is."""


def check_size(schema: Any) -> Any:
    """Returns a schema that is small enough to be checked.

    Raises:
        ValueError: it is no object, or too large; worded for a person.
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


def schema_problems(value: Any, node: Node, check: SchemaCheck) -> Iterator[Problem]:
    """What is wrong with the schema of a document that is sound else."""
    match value:
        case {"kind": "Workflow", "result": {"schema": dict(schema)}}:
            found = check(schema, answer=False)
            line, field = node.line_of("result", "schema"), "result.schema"
        case {"kind": "Agent", "output_schema": dict(schema)}:
            found = check(schema, answer=True)
            line, field = node.line_of("output_schema"), "output_schema"
        case _:
            return
    if found is not None:
        yield Problem(line, field, found)
