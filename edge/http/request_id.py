"""The id that a caller's request goes by. (SPEC.md, Endpoints)."""

import re
from collections.abc import Sequence
from itertools import count
from secrets import token_hex
from typing import Final

_FORM: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")

# Unique is all that an id must be: a random beginning for this process and a count cost no system call per request.
_PROCESS: Final = token_hex(10)
_NUMBERS: Final = count(1)


def request_id_from(given: Sequence[str]) -> str:
    """Return the caller's `X-Request-Id` where it fits, else a new id; a repeated header is as if absent."""
    if len(given) == 1 and _FORM.fullmatch(given[0]):
        return given[0]
    return f"{_PROCESS}{next(_NUMBERS):012x}"
