"""CEL expressions of workflows: their static check by the declared types, and their evaluation to JSON values.

Runs in confined processes only. An expression sees `parameters`, `needs`, `run`, and within a fan-out `item` and
`item_index`. A handle that is no identifier is written `needs["a-b"]`.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Final

from cel_expr_python import cel

from backend.common import json_text
from backend.common.json_text import JsonValue
from backend.isolation.confined import Arguments, JobFailedError
from backend.resources.schemas.expression_scope import LONGEST_EXPRESSION, Expected, ExpressionError, Scope, Values

_LONGEST_REASON: Final = 400
_LONGEST_QUOTE: Final = 100

Types = Mapping[str, cel.Type]


_TYPES: Final[Types] = {
    "string": cel.Type.STRING,
    "integer": cel.Type.INT,
    "number": cel.Type.DOUBLE,
    "boolean": cel.Type.BOOL,
    "date": cel.Type.STRING,
    "s3_prefix": cel.Type.STRING,
    "json": cel.Type.DYN,
}
_NULLABLE: Final[Types] = {
    "string": cel.Type("google.protobuf.StringValue"),
    "integer": cel.Type("google.protobuf.Int64Value"),
    "number": cel.Type("google.protobuf.DoubleValue"),
    "boolean": cel.Type("google.protobuf.BoolValue"),
    "date": cel.Type("google.protobuf.StringValue"),
    "s3_prefix": cel.Type("google.protobuf.StringValue"),
    "json": cel.Type.DYN,
}
_RUN_TYPES: Final[Types] = {
    "run_id": cel.Type.STRING,
    "created_at": cel.Type.STRING,
    "triggered_by": cel.Type.STRING,
    "client_reference": cel.Type.DYN,
    "labels": cel.Type.Map(cel.Type.STRING, cel.Type.STRING),
    "version": cel.Type.INT,
}

# Strings and comments are passed over, so that `needs["a-b"]` within them stays text.
_INDEXED: Final = re.compile(
    r"""//[^\n]*
    | [bB]?[rR][bB]?(?:"[^"\n]*"|'[^'\n]*')
    | \"{3}(?:\\.|[^\\])*?\"{3} | '{3}(?:\\.|[^\\])*?'{3}
    | "(?:\\.|[^"\\\n])*"
    | '(?:\\.|[^'\\\n])*'
    | (?<![\w.])(?P<root>needs|parameters)\s*\[\s*(?P<quote>["'])(?P<name>[a-z0-9_-]+)(?P=quote)\s*\]""",
    re.VERBOSE | re.DOTALL,
)
_COMPILE_ERROR: Final = re.compile(r"ERROR: <input>:(-?\d+):(-?\d+): (.*?)(?: \[[A-Z_]+\])?$", re.MULTILINE)
_UNDECLARED: Final = re.compile(r"undeclared reference to '([\w.]+)'")
_STATUS: Final = re.compile(r"^[A-Z_]+: | \[[A-Z_]+\]$")
_LONG_INTEGER: Final = re.compile(r"\d{19}")
_IDENTIFIER: Final = re.compile(r"[a-z_][a-z0-9_]*")


def problem_of(source: str, expected: Expected, scope: Scope) -> str | None:
    """Returns the first problem of an expression with its line and column, or None; checks types, not values."""
    try:
        compiled = _compile(source, scope, _NULLABLE)
    except ExpressionError as error:
        return str(error)
    returned = compiled.return_type().name()
    if _fits(returned, expected):
        return None
    return f"must give {_KINDS[expected]}, and gives {_kind(returned)}"


def evaluate(source: str, expected: Expected, scope: Scope, values: Values) -> JsonValue:
    """Returns the JSON value of an expression.

    Raises:
        ExpressionError: the expression is not valid, failed, or gave another kind of value.
    """
    untyped = dict.fromkeys(_NULLABLE, cel.Type.DYN)
    try:
        result = _compile(source, scope, untyped).eval(data=_data(scope, values))
    except (RuntimeError, ValueError, TypeError, OverflowError) as error:
        raise ExpressionError(f"failed: {_reason(str(error))}") from error
    kind = result.type().name()
    if kind == "ERROR":
        raise ExpressionError(f"failed: {_reason(str(result.plain_value()))}")
    if not _fits(kind, expected):
        raise ExpressionError(f"gave {_kind(kind)} where {_KINDS[expected]} is expected")
    return _json(result.plain_value())


_KINDS: Final[Mapping[Expected, str]] = {
    Expected.CONDITION: "true or false",
    Expected.LIST: "a list",
    Expected.VALUE: "a JSON value",
}


def _fits(kind: str, expected: Expected) -> bool:
    match expected:
        case Expected.CONDITION:
            return kind in {"BOOL", "DYN"}
        case Expected.LIST:
            return kind.startswith("LIST") or kind == "DYN"
        case Expected.VALUE:
            return True


_WORDS_OF_TYPES: Final = {
    "BOOL": "true or false",
    "STRING": "text",
    "INT": "a number",
    "UINT": "a number",
    "DOUBLE": "a number",
    "NULL_TYPE": "null",
    "LIST": "a list",
    "MAP": "an object",
}


def _kind(name: str) -> str:
    """Returns a type of CEL in words."""
    return _WORDS_OF_TYPES.get(name.partition("<")[0], name.lower())


def _compile(source: str, scope: Scope, nullable: Types) -> cel.Expression:
    if len(source) > LONGEST_EXPRESSION:
        raise ExpressionError(f"must have at most {LONGEST_EXPRESSION:,} characters")
    environment = cel.NewEnv(variables=dict(_variables(scope, nullable)))
    try:
        return environment.compile(_INDEXED.sub(_as_member, source))
    except (RuntimeError, ValueError) as error:
        raise ExpressionError(_compile_reason(str(error), scope)) from error


def _variables(scope: Scope, nullable: Types) -> Iterator[tuple[str, cel.Type]]:
    for name, kind in scope["parameters"].items():
        types = nullable if name in scope["nullable"] else _TYPES
        for variable in _names("parameters", name):
            yield variable, types[kind]
    for handle in scope["needs"]:
        for variable in _names("needs", handle):
            yield variable, cel.Type.DYN
    for name, type_ in _RUN_TYPES.items():
        yield f"run.{name}", type_
    if scope["item"]:
        yield "item", cel.Type.DYN
        yield "item_index", cel.Type.INT


def _names(root: str, name: str) -> Iterator[str]:
    """Yields the variables of a parameter or step: as a member, where that is an identifier, and as an index."""
    if _IDENTIFIER.fullmatch(name):
        yield f"{root}.{name}"
    yield f"{root}.{_indexed(name)}"


def _indexed(name: str) -> str:
    # Handles have no underscores, and names of parameters no dashes, so that no two become one.
    return "_" + name.replace("-", "_")


def _as_member(match: re.Match[str]) -> str:
    """Returns `needs._a_b` in place of `needs["a-b"]`, of its length, so that columns stay."""
    if match["root"] is None:
        return match[0]
    lines = "\n" * match[0].count("\n")
    return f"{match['root']}.{_indexed(match['name'])}".ljust(len(match[0]) - len(lines)) + lines


def _parsed(text: str) -> JsonValue:
    """Parses JSON text, with integers beyond 64 bits, which CEL lacks, as doubles."""
    if _LONG_INTEGER.search(text) is None:
        parsed: JsonValue = json_text.parse(text)
        return parsed
    return _in_range(json.loads(text))


def _in_range(value: JsonValue) -> JsonValue:
    match value:
        case bool():
            return value
        case int():
            return value if -(2**63) <= value < 2**63 else float(value)
        case list():
            return [_in_range(each) for each in value]
        case dict():
            return {name: _in_range(each) for name, each in value.items()}
    return value


def _data(scope: Scope, values: Values) -> dict[str, object]:
    data: dict[str, object] = {f"run.{name}": value for name, value in values["run"].items()}
    for name, kind in scope["parameters"].items():
        value = _in_range(values["parameters"].get(name))
        typed = float(value) if kind == "number" and isinstance(value, int) else value
        data.update(dict.fromkeys(_names("parameters", name), typed))
    for handle in scope["needs"]:
        data.update(dict.fromkeys(_names("needs", handle), values["needs"].get(handle)))
    if scope["item"]:
        data.update(item=_in_range(values["item"]), item_index=values["item_index"])
    return data


def _compile_reason(text: str, scope: Scope) -> str:
    found = _COMPILE_ERROR.search(text)
    if found is None:
        return f"must be a CEL expression: {_reason(text)}"
    line, column, reason = (
        int(found[1]),
        int(found[2]),
        found[3].replace(" (in container '')", "").partition(" expecting {")[0],
    )
    undeclared = _UNDECLARED.fullmatch(reason)
    if undeclared is not None:
        reason = _undeclared_reason(undeclared[1], scope)
    where = "" if line < 1 else f" column {column}:" if line == 1 else f" line {line}, column {column}:"
    return f"must be a CEL expression:{where} {reason[:_LONGEST_REASON]}"


def _undeclared_reason(name: str, scope: Scope) -> str:
    root, _, members = name.partition(".")
    member = members.partition(".")[0].removeprefix("_")
    match root:
        case "needs":
            known = ", ".join(scope["needs"]) or "none"
            return f"the step does not need '{member}': {known}" if member else f"must be needs.STEP, of these: {known}"
        case "parameters":
            known = ", ".join(scope["parameters"]) or "none"
            return f"there is no parameter '{member}': {known}" if member else f"must be parameters.NAME: {known}"
        case "run":
            return f"a run has no '{member}': {', '.join(_RUN_TYPES)}"
    return f"there is no '{name}': expressions see parameters, needs and run"


def run_check(arguments: Arguments, _: list[int]) -> str | None:
    """Returns the problem of the expression `source`, which is `expected` to give a kind of value; None if none."""
    return problem_of(arguments["source"], Expected(arguments["expected"]), arguments["scope"])


def run_evaluation(arguments: Arguments, _: list[int]) -> list[JsonValue]:
    """Returns the values of `expressions`, each a source and the kind expected; values of `needs` are JSON texts.

    Raises:
        JobFailedError: an expression gave no value.
    """
    values: Values = arguments["values"]
    values["needs"] = {step: _parsed(text) for step, text in arguments["needs"].items()}
    results = []
    for source, expected in arguments["expressions"]:
        try:
            results.append(evaluate(source, Expected(expected), arguments["scope"], values))
        except ExpressionError as error:
            shown = " ".join(source.split())
            raise JobFailedError(f"The expression `{shown[:_LONGEST_QUOTE]}` {error}") from error
    return results


def run_items(arguments: Arguments, more: list[int]) -> list[str]:
    """Returns the items that a list expression gives, each as JSON text; arguments as `run_evaluation`, and bounds.

    Raises:
        JobFailedError: the expression gave no list, more than `most` items, or more than `most_bytes` of JSON.
    """
    (items,) = run_evaluation(arguments, more)
    ((source, _),) = arguments["expressions"]
    shown = " ".join(source.split())[:_LONGEST_QUOTE]
    assert isinstance(items, list)
    if len(items) > arguments["most"]:
        message = f"The expression `{shown}` gave {len(items):,} items, more than max_items of {arguments['most']:,}"
        raise JobFailedError(message)
    texts = []
    left = arguments["most_bytes"]
    for item in items:
        texts.append(json_text.write(item))
        left -= len(texts[-1].encode()) + 1
        if left < 0:
            message = f"The expression `{shown}` gave items of more than {arguments['most_bytes']:,} bytes of JSON"
            raise JobFailedError(message)
    return texts


def _reason(text: str) -> str:
    return _STATUS.sub("", text)[:_LONGEST_REASON]


def _json(value: object) -> JsonValue:
    """Returns a value of an expression as JSON.

    Raises:
        ExpressionError: the value has a part that is no JSON, such as a timestamp.
    """
    match value:
        case None | bool() | int() | str():
            return value
        case float() if math.isfinite(value):
            return value
        case list():
            return [_json(each) for each in value]
        case dict() if all(isinstance(name, str) for name in value):
            return {name: _json(each) for name, each in value.items()}
    raise ExpressionError(f"gave a value that is no JSON ({type(value).__name__}): use string(x)")
