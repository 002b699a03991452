"""Derives the JSON Schema of an agent's input from the annotations of its function; the source is parsed, not run."""

import ast
import sys
from collections.abc import Iterator
from importlib.util import decode_source
from typing import Any, Final, NamedTuple

from backend.common.json_text import JsonObject

_SIMPLE: Final = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "list": "array",
    "List": "array",
    "dict": "object",
    "Dict": "object",
    "None": "null",
}
_ALLOWED: Final = "str, int, float, bool, list, dict, list[X], dict[str, X], Literal, Optional, X | None or Any"
_LONGEST_DESCRIPTION: Final = 1_000
_LITERALS: Final = (str, int, bool)
_TYPES: Final = {"string": str, "integer": int, "boolean": bool}
_RECURSION_LIMIT: Final = 1_000


class Signature(NamedTuple):
    """The schema of the parameters after the context, None for none, or the problem of one, with what is allowed."""

    schema: JsonObject | None = None
    problem: str | None = None


class _UnknownError(Exception):
    """The annotation is not understood."""


def signature(text: str | bytes, function: str) -> Signature:
    """Returns the schema of a function that the source defines at its top; none for a function from elsewhere."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(min(limit, _RECURSION_LIMIT))
    try:
        tree = ast.parse(text if isinstance(text, str) else decode_source(text))
        found = [node for node in tree.body if isinstance(node, _FUNCTIONS) and node.name == function]
        return _signature(found[-1]) if found else Signature()
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        # The check of the code has the reason.
        return Signature()
    finally:
        sys.setrecursionlimit(limit)


_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)


def _signature(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Signature:
    properties: JsonObject = {}
    required: list[str] = []
    positional = [parameter for parameter, default in _positional_only(node.args) if default is None]
    if positional:
        return _refused(f"must let the parameter {positional[0].arg} of {node.name} be given by name")
    for parameter, default in _parameters(node.args):
        if parameter.annotation is None and default is not None:
            continue
        schema = _schema_or_none(parameter.annotation)
        if schema is None:
            return _refused(f"must annotate the parameter {parameter.arg} of {node.name} with {_ALLOWED}")
        if default is None:
            required.append(parameter.arg)
        else:
            schema |= _default(default, schema)
        properties[parameter.arg] = schema
    if not properties:
        return Signature()
    if node.decorator_list:
        return _refused(f"must not decorate {node.name}, whose parameters a decorator may change")
    about = (ast.get_docstring(node) or "")[:_LONGEST_DESCRIPTION]
    about = about if _is_storable(about) else ""
    return Signature(
        {
            "type": "object",
            **({"description": about} if about else {}),
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        }
    )


def _refused(rule: str) -> Signature:
    return Signature(problem=f"{rule}, or the agent must have input_schema")


def _positional_only(given: ast.arguments) -> Iterator[tuple[ast.arg, ast.expr | None]]:
    """Yields the parameters after the context that cannot be given by name, each with its default."""
    yield from _positional(given)[1 : len(given.posonlyargs)]


def _parameters(given: ast.arguments) -> Iterator[tuple[ast.arg, ast.expr | None]]:
    """Yields the parameters after the context that can be given by name, each with its default."""
    yield from _positional(given)[max(1, len(given.posonlyargs)) :]
    yield from zip(given.kwonlyargs, given.kw_defaults, strict=True)


def _positional(given: ast.arguments) -> list[tuple[ast.arg, ast.expr | None]]:
    positional = [*given.posonlyargs, *given.args]
    defaults = [*[None] * (len(positional) - len(given.defaults)), *given.defaults]
    return list(zip(positional, defaults, strict=True))


def _schema_or_none(annotation: ast.expr | None) -> JsonObject | None:
    try:
        return None if annotation is None else _schema(annotation)
    except _UnknownError:
        return None


def _schema(node: ast.expr) -> JsonObject:
    match node:
        case ast.Constant(value=None):
            return {"type": "null"}
        case ast.Constant(value=str(text)):
            return _schema(_parsed(text))
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return {"anyOf": [_schema(left), _schema(right)]}
        case ast.Subscript(value=of, slice=inner):
            return _of_subscript(_name(of), inner)
    name = _name(node)
    if name == "Any":
        return {}
    if name not in _SIMPLE:
        raise _UnknownError
    return {"type": _SIMPLE[name]}


def _parsed(text: str) -> ast.expr:
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError):
        raise _UnknownError from None


def _of_subscript(name: str, inner: ast.expr) -> JsonObject:
    match name, inner:
        case (("list" | "List"), _):
            return {"type": "array", "items": _schema(inner)}
        case (("dict" | "Dict"), ast.Tuple(elts=[key, value])) if _name(key) == "str":
            return {"type": "object", "additionalProperties": _schema(value)}
        case "Optional", _:
            return {"anyOf": [_schema(inner), {"type": "null"}]}
        case "Literal", _:
            values = [_literal(one) for one in (inner.elts if isinstance(inner, ast.Tuple) else [inner])]
            return {"enum": values}
    raise _UnknownError


def _literal(node: ast.expr) -> Any:
    if isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, _LITERALS)):
        return node.value
    raise _UnknownError


def _name(node: ast.expr) -> str:
    """Returns the name of a type, also as a member of a module such as `typing`."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(), attr=name):
            return name
    raise _UnknownError


def _default(node: ast.expr, schema: JsonObject) -> JsonObject:
    """Returns the default for the schema if it is a plain constant of the schema's type that can be stored."""
    if not isinstance(node, ast.Constant):
        return {}
    if node.value is None:
        return {} if "type" in schema else {"default": None}
    if not isinstance(node.value, _LITERALS):
        return {}
    of_type = type(node.value) is _TYPES.get(schema.get("type", ""), type(node.value))
    storable = not isinstance(node.value, str) or _is_storable(node.value)
    return {"default": node.value} if of_type and storable else {}


def _is_storable(text: str) -> bool:
    return "\0" not in text and not any("\ud800" <= char <= "\udfff" for char in text)
