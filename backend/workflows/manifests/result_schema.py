"""The JSON Schema of a workflow's result, and of a model's answer (SPEC.md, product limits: 32 KB)."""

import json
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final

from backend.workflows.patterns import check_pattern

_LARGEST_BYTES: Final = 32_768


def check_result_schema(schema: Any) -> Any:
    """Returns the schema.

    Raises:
        ValueError: it is too large, no JSON Schema, or refers to something outside of itself; worded for a person.
    """
    from jsonschema import Draft202012Validator, FormatChecker
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for
    from referencing.exceptions import Unresolvable

    if not isinstance(schema, dict):
        raise ValueError("must be a JSON Schema: an object")  # noqa: TRY004 - a value that is not allowed, like the others
    if len(json.dumps(schema, ensure_ascii=False, separators=(",", ":")).encode()) > _LARGEST_BYTES:
        raise ValueError(f"must have at most {_LARGEST_BYTES:,} bytes as JSON")
    validator = validator_for(schema, default=Draft202012Validator)
    formats = FormatChecker(())
    formats.checks("regex", raises=ValueError)(_is_pattern)
    try:
        validator.check_schema(schema, formats)  # type: ignore[call-arg]  # the stub leaves it out
    except SchemaError as error:
        where = "/".join(str(part) for part in error.absolute_path)
        why = str(error.cause or error.message)[:200]
        raise ValueError(f"must be a JSON Schema: {where or 'schema'}: {why}") from None
    resolver = _resolver(schema)
    for inner in _with_ids(schema.values()):
        if any(_references(inner)):
            # There a $ref beginning with # means that part alone.
            raise ValueError("must have no $ref in a part with an $id of its own")
    for reference in _references(schema):
        if not reference.startswith("#"):
            raise ValueError("must refer to nothing outside of itself: $ref begins with #")
        try:
            resolver.lookup(reference)
        except Unresolvable:
            raise ValueError(f"must hold what it refers to: {reference[:200]}") from None
    return schema


def check_answer_schema(schema: Any) -> Any:
    """Returns the schema of a model's answer; as `check_result_schema`, its type is object, and it never recurs."""
    checked = check_result_schema(schema)
    if checked.get("type") != "object":
        raise ValueError("must be a JSON Schema of type object")
    resolver = _resolver(checked)
    within = {reference: set(_references(resolver.lookup(reference).contents)) for reference in _references(checked)}
    try:
        TopologicalSorter(within).prepare()
    except CycleError as error:
        raise ValueError(f"must not recur: {error.args[1][0][:200]}") from None
    return checked


def _resolver(schema: Any) -> Any:
    from referencing import Registry, Resource
    from referencing.jsonschema import DRAFT202012

    resource: Resource[Any] = Resource.from_contents(schema, default_specification=DRAFT202012)
    return Registry().with_resource("", resource).resolver()


def _is_pattern(value: object) -> bool:
    """Of what the schemas of schemas want to be a regular expression: raises ValueError as `check_pattern` does."""
    return not isinstance(value, str) or check_pattern(value) == value


def _with_ids(parts: Iterable[Any]) -> Iterator[Any]:
    """What below these has an id by the words of any draft."""
    for part in parts:
        if isinstance(part, dict):
            if isinstance(part.get("$id", part.get("id")), str):
                yield part
            yield from _with_ids(part.values())
        elif isinstance(part, list):
            yield from _with_ids(part)


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        for name, value in schema.items():
            if name in {"$ref", "$dynamicRef", "$recursiveRef"} and isinstance(value, str):
                yield value
            else:
                yield from _references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _references(value)
