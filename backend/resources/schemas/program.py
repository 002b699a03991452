"""Program of the confined processes that validate values, schemas, code and expressions.

Each of `OPERATIONS` takes its arguments as JSON and returns JSON, mostly the problem found or null.
Patterns of a JSON Schema take linear time; other keywords are not bounded.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from itertools import islice
from typing import Any, Final

import jsonschema_rs

from backend.common import json_text
from backend.common.json_text import JsonMapping, JsonObject, UnstorableJsonError, parse_strict
from backend.isolation.confined import Arguments
from backend.resources.schemas import expressions
from backend.resources.schemas.content_checks import CodeProblem, code_problem

LONGEST_MESSAGE: Final = 1_000
DRAFTS: Final = "Draft 4, 6, 7, 2019-09 or 2020-12"

_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_REFERENCES: Final = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
_LONGEST_QUOTE: Final = 200
_MOST_PROBLEMS: Final = 40
_BASE: Final = "urn:schema"


def validator_of(schema: Any) -> jsonschema_rs.Validator:
    """Compiles a schema, by Draft 2020-12 unless it names another draft; formats are annotations only.

    Raises:
        jsonschema_rs.ValidationError: the schema is not valid, or refers to a part that it does not contain.
    """
    return jsonschema_rs.validator_for(
        schema, offline=True, validate_formats=False, pattern_options=jsonschema_rs.RegexOptions()
    )


def mismatch(schema: object, value: object, what: str) -> str | None:
    """Returns a message about the first mismatch and its path; None if the value fits. `what` names the value."""
    try:
        validator = validator_of(schema)
    except jsonschema_rs.ValidationError as unsound:
        return f"The {what} cannot be judged by the schema: {unsound.message}"[:LONGEST_MESSAGE]
    try:
        validator.validate(value)
    except jsonschema_rs.ValidationError as error:
        where = _json_path(error.instance_path)
        return f"The {what} does not fit its schema at {where}: {error.message}"[:LONGEST_MESSAGE]
    except UnicodeEncodeError:
        return f"The {what} does not fit its schema: it holds a surrogate that stands alone"
    return None


def schema_problem(schema: JsonObject, *, answer: bool = False) -> str | None:
    """Returns the first problem of a schema, worded for a person; None if it has none.

    The schema of a model's `answer` must also have the type object, and must not recur.
    """
    return next(_problems(schema, answer=answer), None)


def _problems(schema: JsonObject, *, answer: bool) -> Iterator[str]:
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


def _outside_references(schema: JsonMapping) -> Iterator[str]:
    for inner in _with_ids(schema.values()):
        if any(_references(inner)):
            # Inside a part with an id, a $ref that begins with # refers to that part alone.
            yield "must have no $ref in a part with an $id of its own"
    if not all(reference.startswith("#") for reference in _references(schema)):
        yield "must refer to nothing outside of itself: $ref begins with #"


def _unfit_for_an_answer(schema: JsonMapping, within: dict[str, set[str]]) -> Iterator[str]:
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


def _with_ids(parts: Iterable[object]) -> Iterator[object]:
    """Yields the parts below `parts` that have an id by any draft."""
    for part in parts:
        if isinstance(part, dict):
            if isinstance(part.get("$id", part.get("id")), str):
                yield part
            yield from _with_ids(part.values())
        elif isinstance(part, list):
            yield from _with_ids(part)


def _references(schema: object) -> Iterator[str]:
    if isinstance(schema, dict):
        for name, value in schema.items():
            if name in _REFERENCES and isinstance(value, str):
                yield value
            else:
                yield from _references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _references(value)


def _json_path(path: Iterable[str | int]) -> str:
    return "$" + "".join(map(_json_path_part, path))


def _json_path_part(part: str | int) -> str:
    if isinstance(part, int):
        return f"[{part}]"
    if _PLAIN_NAME.fullmatch(part):
        return f".{part}"
    escaped = part.replace("\\", "\\\\").replace("'", "\\'")
    return f"['{escaped}']"


def validate(arguments: Arguments, _: list[int]) -> str | None:
    """Returns the mismatch of the `value`, given as JSON text, with its `schema`; None if it fits."""
    return mismatch(arguments["schema"], json_text.parse(arguments["value"]), arguments["what"])


def check(arguments: Arguments, _: list[int]) -> str | None:
    """Returns the problem of a schema; None if it has none."""
    return schema_problem(arguments["schema"], answer=arguments["answer"])


def normalise(arguments: Arguments, _: list[int]) -> dict[str, str | None]:
    """Returns the `value`, given as JSON text, as compact `text`, or the `problem` if it is not strict JSON."""
    try:
        return {"text": json_text.write(parse_strict(arguments["value"].encode())), "problem": None}
    except UnstorableJsonError as error:
        return {"text": None, "problem": str(error)}


def member(arguments: Arguments, _: list[int]) -> str | None:
    """Returns the member `name` of the `value`, given as JSON text, if that is an object and the member a string."""
    value = json_text.parse(arguments["value"])
    found = value.get(arguments["name"]) if isinstance(value, dict) else None
    return found if isinstance(found, str) else None


def validate_form(arguments: Arguments, _: list[int]) -> dict[str, object]:
    """Returns the `value` of a form, given as JSON text, as compact `text`, and `problems` as pairs of name and reason.

    The name is the name of a member; empty for a problem of the whole value.
    """
    try:
        value = parse_strict(arguments["value"].encode())
    except UnstorableJsonError as error:
        return {"text": None, "problems": [["", str(error)]]}
    if not isinstance(value, dict):
        return {"text": None, "problems": [["", "must be a JSON object"]]}
    problems = islice(_form_problems(arguments["schema"], value), _MOST_PROBLEMS)
    return {"text": json_text.write(value), "problems": list(problems)}


def _form_problems(schema: object, value: object) -> Iterator[list[str]]:
    kinds = jsonschema_rs.ValidationErrorKind
    for error in validator_of(schema).iter_errors(value):
        if isinstance(error.kind, kinds.Required):
            yield [error.kind.property, "is required"]
        elif isinstance(error.kind, kinds.AdditionalProperties):
            yield from ([name[:_LONGEST_QUOTE], "is no field of this form"] for name in error.kind.unexpected)
        else:
            name = str(error.instance_path[0]) if error.instance_path else ""
            yield [name, f"must fit the schema: {error.message[:_LONGEST_QUOTE]}"]


def compile_code(arguments: Arguments, _: list[int]) -> CodeProblem | None:
    """Returns the problem of Python source `text`, or of `bytes` given as Latin-1; None if it has none."""
    text = arguments["text"]
    return code_problem(arguments["bytes"].encode("latin-1") if text is None else text, defines=arguments["defines"])


OPERATIONS: Final[Mapping[str, Callable[[Arguments, list[int]], object]]] = {
    "validate": validate,
    "check": check,
    "normalise": normalise,
    "member": member,
    "validate_form": validate_form,
    "compile": compile_code,
    "check_expression": expressions.run_check,
    "evaluate": expressions.run_evaluation,
    "items": expressions.run_items,
}
