"""A route of the API."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Route:
    """One method on one path below the base address.

    `repeatable`: a call whose answer was lost may be sent again, as it changes nothing or is recognized.
    """

    method: str
    path: str
    repeatable: bool
    takes_body: bool
