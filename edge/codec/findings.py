"""Collected problems of a request, so that one answer names all of them."""

from typing import Final

from contract.refusals import Refusal

MAX_PROBLEMS: Final = 100
"""Most problems in one answer, so that it stays smaller than the request."""

_ORDER: Final = ("invalid_filter", "invalid_cursor")


class Findings:
    """Problems by error code (contract 5.12, 5.14).

    `invalid_request` comes first and lists all its problems, then `invalid_filter`, then `invalid_cursor`.
    """

    def __init__(self) -> None:
        self._problems: list[dict[str, str]] = []
        self._others: dict[str, str] = {}

    def add(self, code: str, name: str, reason: str) -> None:
        """Records that the field, parameter or header `name` is not valid; `reason` says what is allowed."""
        if code in _ORDER:
            self._others.setdefault(code, f"The parameter {name} {reason}.")
        elif len(self._problems) < MAX_PROBLEMS:
            self._problems.append({"name": name, "reason": reason})

    def refuse(self) -> None:
        """Raises the collected problems, if there are any.

        Raises:
            Refusal: the first code in order, `invalid_request` with its problems.
        """
        if self._problems:
            raise Refusal("invalid_request", details=self._problems)
        for code in _ORDER:
            if code in self._others:
                raise Refusal(code, self._others[code])
