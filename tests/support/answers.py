"""Judging a model's answer in this process, for tests of what follows from it."""

from typing import Any

from backend.schemas.validation import mismatch


async def mismatch_of_answer(schema: Any, answer: Any) -> str | None:
    """What of an answer does not fit its schema."""
    return mismatch(schema, answer, "answer")
