"""Trials of calls that nobody makes: what the checks that admit calls would say to them."""

from enum import Enum, auto
from typing import NamedTuple

from contract.refusals import Refusal


class CheckName(Enum):
    """A check that every call passes (contract 5.1)."""

    BODY_SIZE = auto()
    PREFLIGHT = auto()
    ROUTE = auto()
    BODY_JSON = auto()
    DEPLOYMENT = auto()
    CREDENTIALS = auto()
    SOURCE = auto()
    HOUR = auto()
    RATE_LIMIT = auto()
    SCOPE = auto()


class TrialCall(NamedTuple):
    """A call that might be made: its method, its path, where it comes from and when, in milliseconds."""

    method: str
    path: str
    address: str
    at_ms: int


class CheckOutcome(NamedTuple):
    """A check and its refusal; None where it passed."""

    check: CheckName
    refusal: Refusal | None
