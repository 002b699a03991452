"""The program of the confined processes that judge values and check schemas; see `backend.confined`."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from backend import json_text
from backend.schemas.rules import schema_problem
from backend.schemas.validation import mismatch


def judge(arguments: Mapping[str, Any], _: list[int]) -> str | None:
    """What does not fit of `value`, JSON text; None where all of it fits."""
    return mismatch(arguments["schema"], json_text.parse(arguments["value"]), arguments["what"])


def check(arguments: Mapping[str, Any], _: list[int]) -> str | None:
    """What is wrong with a schema; None where nothing is."""
    return schema_problem(arguments["schema"], answer=arguments["answer"])


OPERATIONS: Final[Mapping[str, Callable[[Mapping[str, Any], list[int]], Any]]] = {"judge": judge, "check": check}
