"""Judging answers and reading return values in this process, for tests of what follows from them."""

from typing import Any

from backend.common import json_text
from backend.common.json_text import JsonText, parse_strict
from backend.resources.schemas.program import mismatch


async def mismatch_of_answer(schema: Any, answer: Any) -> str | None:
    """What of an answer does not fit its schema."""
    return mismatch(schema, answer, "answer")


async def value_in_process(text: str) -> JsonText:
    """A large return value as its text."""
    return JsonText(json_text.write(parse_strict(text.encode())))
