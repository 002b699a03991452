"""Judging a result, or a model's answer, by its schema, in a time that no pattern of the schema can blow up."""

from functools import cache
from typing import Any, Final

from backend.workflows.patterns import search

_LONGEST_MESSAGE: Final = 1_000


def schema_mismatch(schema: Any, value: Any, what: str = "result") -> str | None:
    """What does not fit first, and where; None when the value fits the schema (Draft 2020-12 where it names none)."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match
    from jsonschema.validators import validator_for

    _match_in_linear_time()
    validator = validator_for(schema, default=Draft202012Validator)(schema)
    try:
        error = best_match(validator.iter_errors(value))
    except RecursionError:
        return f"The {what} is nested too deeply to be judged by the schema."
    except Exception as unreadable:  # noqa: BLE001 - as a number beyond a double; no run may fail for it
        return f"The {what} cannot be judged by the schema: {unreadable}"[:_LONGEST_MESSAGE]
    if error is None:
        return None
    return f"The {what} does not fit its schema at {error.json_path}: {error.message}"[:_LONGEST_MESSAGE]


class _LinearRe:
    """Stands in for `re` where schemas are judged."""

    search = staticmethod(search)


@cache
def _match_in_linear_time() -> None:
    """Has every keyword of every draft match as `backend.workflows.patterns` does.

    Python's `re` may backtrack for ever and holds the whole process meanwhile. Four keywords match, two of them deep
    within their walks, and a subschema may name another draft: replacing keywords one by one would leave gaps.
    """
    from jsonschema import _keywords, _legacy_keywords, _utils

    for module in (_keywords, _legacy_keywords, _utils):
        vars(module)["re"] = _LinearRe
