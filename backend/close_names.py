"""Messages for names that nothing has, with the names that come close."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Final

_MOST: Final = 3
_LEAST_LIKENESS: Final = 0.6


def no_such(what: str, given: str, known: Iterable[str]) -> str:
    """Returns the message that nothing of a kind has the given name, and which of the known names may be meant."""
    return f"There is no {what} named {given}.{_suggestion(given, {name: name for name in known})}"


def no_such_id(what: str, given: str, known: Mapping[str, str]) -> str:
    """Returns the message that nothing of a kind has the given id, and which known ids may be meant, by their names."""
    return f"There is no {what} {given}.{_suggestion(given, {name: f'{name} ({one})' for one, name in known.items()})}"


def _suggestion(given: str, shown: Mapping[str, str]) -> str:
    folded = {name.casefold(): name for name in shown}
    close = get_close_matches(given.casefold(), folded, n=_MOST, cutoff=_LEAST_LIKENESS)
    return f" Did you mean {' or '.join(shown[folded[name]] for name in close)}?" if close else ""
