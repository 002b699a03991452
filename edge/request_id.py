"""The id that a caller's request goes by. (SPEC.md, Endpoints)."""

import re
from collections.abc import Sequence
from secrets import token_hex
from typing import Final

_FORM: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")


def request_id_from(given: Sequence[str]) -> str:
    """Return the caller's `X-Request-Id` where it fits, else a new id; a repeated header is as if absent."""
    if len(given) == 1 and _FORM.fullmatch(given[0]):
        return given[0]
    return token_hex(16)
