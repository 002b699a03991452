"""Types of dry runs of admission: a hypothetical call, and the outcome of each check."""

from enum import Enum, auto
from typing import NamedTuple

from contract.refusals import Refusal


class CheckName(Enum):
    """Names of the admission checks, in their order (contract 5.1)."""

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
    """A hypothetical call: method, path, source address and time in milliseconds since the epoch."""

    method: str
    path: str
    address: str
    at_ms: int


class CheckOutcome(NamedTuple):
    """A check and its refusal; None where it passed."""

    check: CheckName
    refusal: Refusal | None
