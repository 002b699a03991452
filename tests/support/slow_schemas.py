"""A schema and a value that it takes minutes to judge, in little memory."""

from typing import Any, Final

SLOW_SCHEMA: Final[dict[str, Any]] = {
    "$defs": {"e": {"enum": [[number] for number in range(2_000)]}},
    "items": {"allOf": [{"$ref": "#/$defs/e"}] * 100},
}
SLOW_VALUE: Final = [[1_999]] * 2_000
