"""The names and values that an expression of a workflow sees, and the kinds of values that it gives."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final, TypedDict

from backend.common.json_text import JsonValue

LONGEST_EXPRESSION: Final = 2_000
"""Most characters of an expression."""


class Expected(StrEnum):
    """The kind of value that an expression must give."""

    CONDITION = "condition"
    LIST = "list"
    VALUE = "value"


class Scope(TypedDict):
    """The names that an expression sees.

    `parameters` are the types of the declared parameters; those in `nullable` may have no value. `needs` are handles of
    steps. `item` is True if the expression belongs to an item of a fan-out.
    """

    parameters: Mapping[str, str]
    nullable: Sequence[str]
    needs: Sequence[str]
    item: bool


class Values(TypedDict):
    """The values of the names in a scope."""

    parameters: Mapping[str, JsonValue]
    needs: Mapping[str, JsonValue]
    run: Mapping[str, JsonValue]
    item: JsonValue
    item_index: int


class ExpressionError(Exception):
    """An expression is not valid, or gave no value; the text is for a person, and may quote values."""
