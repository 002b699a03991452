"""Ids of requests (contract 4.1)."""

from collections.abc import Sequence
from itertools import count
from secrets import token_hex
from typing import Final

from contract.ids import ANY_ID

# An id must only be unique: a random prefix of the process and a counter cost no system call per request.
_PROCESS: Final = token_hex(10)
_NUMBERS: Final = count(1)


def request_id_from(given: Sequence[str] | None) -> str:
    """Returns the caller's `X-Request-Id` if it is valid, else a new id; a repeated header counts as absent."""
    if given is not None and len(given) == 1 and ANY_ID.fullmatch(given[0]):
        return given[0]
    return f"{_PROCESS}{next(_NUMBERS):012x}"
