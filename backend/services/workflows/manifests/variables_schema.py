"""Adapts the JSON Schema of manifests to variables: a field with bounds also accepts a reference `${vars.NAME}`."""

from typing import Any, Final

from backend.common.json_text import JsonObject

_REFERENCE: Final[JsonObject] = {"type": "string", "pattern": r"\$\{vars\.[A-Za-z_][A-Za-z0-9_]*\}"}
_ANNOTATIONS: Final = frozenset({"description", "default", "examples", "title"})
_INNER: Final = ("items", "additionalProperties", "then", "if", "not")
_LISTS: Final = ("allOf", "anyOf", "oneOf")


def allow_references(schema: Any) -> Any:
    """Returns the schema changed to accept `${vars.NAME}` wherever it bounds a single value."""
    if not isinstance(schema, dict):
        return schema
    if _is_bounded_value(schema):
        about = {name: each for name, each in schema.items() if name in _ANNOTATIONS}
        bounds = {name: each for name, each in schema.items() if name not in _ANNOTATIONS}
        return {**about, "anyOf": [bounds, _REFERENCE]}
    changed = dict(schema)
    if "properties" in schema:
        changed["properties"] = {name: allow_references(each) for name, each in schema["properties"].items()}
    for name in _LISTS:
        if name in schema:
            changed[name] = [_allow_in_choice(each) for each in schema[name]]
    changed |= {name: allow_references(schema[name]) for name in _INNER if name in schema and name != "if"}
    return changed


def _allow_in_choice(schema: Any) -> Any:
    """Returns one of several schemas changed likewise, but for the condition that selects it."""
    if isinstance(schema, dict) and "if" in schema:
        return {**schema, "then": allow_references(schema["then"])}
    return allow_references(schema)


def _is_bounded_value(schema: JsonObject) -> bool:
    kinds = schema.get("type", [])
    kinds = {kinds} if isinstance(kinds, str) else set(kinds)
    if "object" in kinds or "array" in kinds or "properties" in schema:
        return False
    return "enum" in schema or "pattern" in schema or bool(kinds & {"integer", "number", "boolean"})
