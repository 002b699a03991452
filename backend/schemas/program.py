"""The program of the confined processes that validate values, schemas and code; see `backend.confined`."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from backend import json_text
from backend.schemas.rules import schema_problem
from backend.schemas.source_code import CodeProblem, code_problem
from backend.schemas.validation import mismatch
from backend.strict_json import NotJsonError, parse


def judge(arguments: Mapping[str, Any], _: list[int]) -> str | None:
    """Returns how the `value`, given as JSON text, does not fit its `schema`; None if it fits."""
    return mismatch(arguments["schema"], json_text.parse(arguments["value"]), arguments["what"])


def check(arguments: Mapping[str, Any], _: list[int]) -> str | None:
    """Returns the problem of a schema; None if it has none."""
    return schema_problem(arguments["schema"], answer=arguments["answer"])


def normalise(arguments: Mapping[str, Any], _: list[int]) -> dict[str, str | None]:
    """Returns the `value`, given as JSON text, as compact `text`, or the `problem` if it is not strict JSON."""
    try:
        return {"text": json_text.write(parse(arguments["value"].encode())), "problem": None}
    except NotJsonError as error:
        return {"text": None, "problem": str(error)}


def member(arguments: Mapping[str, Any], _: list[int]) -> str | None:
    """Returns the member `name` of the `value`, given as JSON text, if that is an object and the member a string."""
    value = json_text.parse(arguments["value"])
    found = value.get(arguments["name"]) if isinstance(value, dict) else None
    return found if isinstance(found, str) else None


def compile_code(arguments: Mapping[str, Any], _: list[int]) -> CodeProblem | None:
    """Returns the problem of Python source `text`, or of `bytes` given as Latin-1; None if it has none."""
    text = arguments["text"]
    return code_problem(arguments["bytes"].encode("latin-1") if text is None else text, defines=arguments["defines"])


OPERATIONS: Final[Mapping[str, Callable[[Mapping[str, Any], list[int]], Any]]] = {
    "judge": judge,
    "check": check,
    "normalise": normalise,
    "member": member,
    "compile": compile_code,
}
