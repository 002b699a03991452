"""Validates values by a JSON Schema: patterns take linear time, other keywords are not bounded."""

import re
from collections.abc import Iterable
from typing import Any, Final

import jsonschema_rs

LONGEST_MESSAGE: Final = 1_000
DRAFTS: Final = "Draft 4, 6, 7, 2019-09 or 2020-12"

_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def validator_of(schema: Any) -> Any:
    """Compiles a schema, by Draft 2020-12 unless it names another; formats are annotations only.

    Raises:
        jsonschema_rs.ValidationError: it is no schema, or refers to something that it does not contain.
    """
    return jsonschema_rs.validator_for(
        schema, offline=True, validate_formats=False, pattern_options=jsonschema_rs.RegexOptions()
    )


def mismatch(schema: Any, value: Any, what: str) -> str | None:
    """Returns what does not fit, and where; None if the value fits. `what` names the value in messages."""
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


def _json_path(path: Iterable[str | int]) -> str:
    return "$" + "".join(map(_json_path_part, path))


def _json_path_part(part: str | int) -> str:
    if isinstance(part, int):
        return f"[{part}]"
    if _PLAIN_NAME.fullmatch(part):
        return f".{part}"
    escaped = part.replace("\\", "\\\\").replace("'", "\\'")
    return f"['{escaped}']"
