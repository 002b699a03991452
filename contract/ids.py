"""Patterns of ids, and the ids of HTTP requests (contract 4.1)."""

import re
from collections.abc import Sequence
from itertools import count
from secrets import token_hex
from typing import Final

ANY_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")
"""Any id, including an `X-Request-Id` that the caller chose (contract 4.1)."""

RUN_ID: Final = re.compile(r"run_[0-9a-z]{26}")
"""Id of a run (contract 2.6)."""
KEY_ID: Final = re.compile(r"ak_[A-Za-z0-9]{6,64}")
"""The id of an API key: the part before the dot of the key itself."""


# Ids must only be unique: a random prefix of the process and a counter cost no system call per request.
_PROCESS: Final = token_hex(10)
_NUMBERS: Final = count(1)


def request_id_from(given: Sequence[str] | None) -> str:
    """Returns the caller's `X-Request-Id` if it is valid, else a new id; a repeated header counts as absent."""
    if given is not None and len(given) == 1 and ANY_ID.fullmatch(given[0]):
        return given[0]
    return f"{_PROCESS}{next(_NUMBERS):012x}"
