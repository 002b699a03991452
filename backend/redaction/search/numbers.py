"""Rewrites whole numbers as rules read them: tables may write the number of a card or phone as a float."""

import re
from decimal import Decimal
from typing import Final

from backend.redaction.search.linear_search import search_for

_LONGEST: Final = 20
_EXPONENT: Final = re.compile(r'(["\s]*)([-+]?[0-9]{1,40}(?:\.[0-9]{0,40})?[eE][-+]?[0-9]{1,2})(["\s]*)')
_exponent: Final = search_for("[0-9.][eE][-+]?[0-9]")


def has_exponents(text: str) -> bool:
    """Returns whether a text may hold a number with an exponent."""
    return _exponent(text.encode("latin-1", "replace"), 0) >= 0


def plain_number(text: str) -> str:
    """Returns a whole number with an exponent as digits alone, within its quotes; any other text unchanged."""
    if "e" not in text and "E" not in text:
        return text
    found = _EXPONENT.fullmatch(text)
    if found is None:
        return text
    before, written, after = found.groups()
    number = Decimal(written)
    if not 0 <= number.adjusted() < _LONGEST or number != number.to_integral_value():
        return text
    return f"{before}{number:.0f}{after}"
