"""Judging answers and reading return values in this process, for tests of what follows from them."""

from typing import Any

from backend import json_text
from backend.json_text import JsonText
from backend.schemas.validation import mismatch
from backend.strict_json import parse


async def mismatch_of_answer(schema: Any, answer: Any) -> str | None:
    """What of an answer does not fit its schema."""
    return mismatch(schema, answer, "answer")


async def value_in_process(text: str) -> JsonText:
    """A large return value as its text."""
    return JsonText(json_text.write(parse(text.encode())))
