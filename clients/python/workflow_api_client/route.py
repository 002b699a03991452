"""Type of the routes in `generated/routes.py`."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Route:
    """One method on one path below the base address.

    `repeatable` is True if a call whose answer was lost may be sent again, because it changes nothing or the service
    recognizes it.
    """

    method: str
    path: str
    repeatable: bool
    takes_body: bool
