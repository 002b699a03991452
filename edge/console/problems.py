"""What a service, or the page itself, finds wrong with a form."""

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Final, NamedTuple

from edge.errors import Refusal

Problems = Mapping[str, str]
"""What is wrong with each field, in words that complete "the field …"."""

_WHOLE_NUMBER: Final = re.compile(r"-?[0-9]{1,9}")


def problems_of(refusal: Refusal) -> Problems:
    """Return what an `invalid_request` finds wrong, by field; a part such as `allowed_hours.end_hour` by its field.

    Raises:
        Refusal: Any other refusal, which is not about what was typed.
    """
    if refusal.code != "invalid_request":
        raise refusal
    found: dict[str, list[str]] = {}
    for problem in refusal.details if isinstance(refusal.details, list) else ():
        found.setdefault(problem["name"].partition(".")[0], []).append(problem["reason"])
    if not found:
        return {"form": refusal.message}
    return {name: "; ".join(dict.fromkeys(reasons)) for name, reasons in found.items()}


def invalid(problems: Mapping[str, str]) -> Refusal:
    """Return the refusal of a form that cannot be read, in the shape that a service gives it."""
    return Refusal("invalid_request", details=[{"name": name, "reason": reason} for name, reason in problems.items()])


def whole_number(text: str) -> int | None:
    """Return a number as it was typed, or None; which numbers are allowed is the backend's rule."""
    return int(text) if _WHOLE_NUMBER.fullmatch(text) else None


def mark_of(form: NamedTuple) -> str:
    """Return what stands for all that a form held when it was shown; it comes back with the form."""
    return sha256(repr(tuple(form)).encode()).hexdigest()[:16]


def check_mark(form: NamedTuple, mark: str) -> None:
    """Hold what a form would hold now against the mark of the one that somebody has changed.

    Raises:
        Refusal: `invalid_request` where somebody else was faster: sending it would undo what they did.
    """
    if mark_of(form) != mark:
        raise invalid({"form": "Somebody else changed this meanwhile. It is shown as it is now: change it again."})
