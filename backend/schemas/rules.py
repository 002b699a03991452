"""Rules for schemas in manifests: valid, with patterns of linear time, and without references to elsewhere."""

from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final

import jsonschema_rs

from backend.schemas.validation import DRAFTS, validator_of

_REFERENCES: Final = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
_LONGEST_QUOTE: Final = 200
_BASE: Final = "urn:schema"


def schema_problem(schema: Any, *, answer: bool = False) -> str | None:
    """Returns the first problem of a schema, worded for a person; None if it has none.

    The schema of a model's `answer` must also have the type object, and must not recur.
    """
    return next(_problems(schema, answer=answer), None)


def _problems(schema: Any, *, answer: bool) -> Iterator[str]:
    yield from _outside_references(schema)
    try:
        validator_of(schema)
    except jsonschema_rs.ValidationError as error:
        yield _unsound(error)
        return
    resolver = jsonschema_rs.Registry([(_BASE, schema)]).resolver(_BASE)
    references = dict.fromkeys(_references(schema))
    within = {}
    for reference in references:
        try:
            part = resolver.lookup(reference).contents
        except jsonschema_rs.ReferencingError:
            yield f"must hold what it refers to: {reference[:_LONGEST_QUOTE]}"
        else:
            within[reference] = set(_references(part)) if answer else set()
    if answer:
        yield from _unfit_for_an_answer(schema, within)


def _outside_references(schema: Any) -> Iterator[str]:
    for inner in _with_ids(schema.values()):
        if any(_references(inner)):
            # Inside such a part, a $ref that begins with # refers to that part alone.
            yield "must have no $ref in a part with an $id of its own"
    if not all(reference.startswith("#") for reference in _references(schema)):
        yield "must refer to nothing outside of itself: $ref begins with #"


def _unfit_for_an_answer(schema: Any, within: dict[str, set[str]]) -> Iterator[str]:
    if schema.get("type") != "object":
        yield "must be a JSON Schema of type object"
    try:
        TopologicalSorter(within).prepare()
    except CycleError as error:
        yield f"must not recur: {error.args[1][0][:_LONGEST_QUOTE]}"


def _unsound(error: jsonschema_rs.ValidationError) -> str:
    where = "/".join(str(part) for part in error.instance_path) or "schema"
    why = error.message
    if isinstance(error.kind, jsonschema_rs.ValidationErrorKind.Format):
        why = "must be a regular expression of moderate size without look-around or back-references"
    elif "meta-schema" in why:
        where, why = "$schema", f"must name {DRAFTS}"
    return f"must be a JSON Schema: {where}: {why[:_LONGEST_QUOTE]}"


def _with_ids(parts: Iterable[Any]) -> Iterator[Any]:
    """Yields the parts below these that have an id by any draft."""
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
            if name in _REFERENCES and isinstance(value, str):
                yield value
            else:
                yield from _references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _references(value)
