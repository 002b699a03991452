"""Problems that a service, or the page itself, finds in a form."""

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Final, NamedTuple

from contract.refusals import Refusal

Problems = Mapping[str, str]
"""The problem of each field, in words that complete "the field …"."""

_WHOLE_NUMBER: Final = re.compile(r"-?[0-9]{1,9}")


def problems_of(refusal: Refusal) -> Problems:
    """Returns the problems of an `invalid_request` by field; `allowed_hours.end_hour` counts as `allowed_hours`.

    Raises:
        Refusal: any other refusal, which is not about the form's fields.
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
    """Returns the refusal of a form that cannot be read, in the form of a service's refusal."""
    return Refusal("invalid_request", details=[{"name": name, "reason": reason} for name, reason in problems.items()])


def whole_number(text: str) -> int | None:
    """Returns a typed number, or None where it is none; the backend checks its range."""
    return int(text) if _WHOLE_NUMBER.fullmatch(text) else None


def form_hash(form: NamedTuple) -> str:
    """Returns a hash of a form's values, which is submitted with the form to detect concurrent changes."""
    return sha256(repr(tuple(form)).encode()).hexdigest()[:16]


def check_unchanged(form: NamedTuple, shown: str) -> None:
    """Compares the current values with the hash of the values that a submitted form showed.

    Raises:
        Refusal: `invalid_request` where they differ: the form would undo another user's change.
    """
    if form_hash(form) != shown:
        raise invalid({"form": "Somebody else changed this meanwhile. It is shown as it is now: change it again."})
