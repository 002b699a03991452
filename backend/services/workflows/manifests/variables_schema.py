"""JSON Schema of manifests with variables: a field that has bounds may hold a reference in their place."""

from typing import Any, Final

from backend.common.json_text import JsonObject

_REFERENCE: Final[JsonObject] = {"type": "string", "pattern": r"\$\{vars\.[A-Za-z_][A-Za-z0-9_]*\}"}
_ABOUT: Final = frozenset({"description", "default", "examples", "title"})
_INNER: Final = ("items", "additionalProperties", "then", "if", "not")
_LISTS: Final = ("allOf", "anyOf", "oneOf")


def with_references(schema: Any) -> Any:
    """Returns a schema that accepts a text with `${vars.NAME}` wherever it bounds a single value."""
    if not isinstance(schema, dict):
        return schema
    if _is_bounded_value(schema):
        about = {name: each for name, each in schema.items() if name in _ABOUT}
        bounds = {name: each for name, each in schema.items() if name not in _ABOUT}
        return {**about, "anyOf": [bounds, _REFERENCE]}
    changed = dict(schema)
    if "properties" in schema:
        changed["properties"] = {name: with_references(each) for name, each in schema["properties"].items()}
    for name in _LISTS:
        if name in schema:
            changed[name] = [_choice(each) for each in schema[name]]
    changed |= {name: with_references(schema[name]) for name in _INNER if name in schema and name != "if"}
    return changed


def _choice(schema: Any) -> Any:
    """Returns one of several schemas; a condition on the fields that select it stays as it is."""
    if isinstance(schema, dict) and "if" in schema:
        return {**schema, "then": with_references(schema["then"])}
    return with_references(schema)


def _is_bounded_value(schema: JsonObject) -> bool:
    kinds = schema.get("type", [])
    kinds = {kinds} if isinstance(kinds, str) else set(kinds)
    if "object" in kinds or "array" in kinds or "properties" in schema:
        return False
    return "enum" in schema or "pattern" in schema or bool(kinds & {"integer", "number", "boolean"})
