"""Definition of a rule: a pattern of the values of an entity type, and their scores.

Every rule is local: whether a rule matches at a position depends on at most REACH characters on either side, and no
value crosses a line break. So a long text may be cut anywhere if each piece keeps REACH characters of its neighbours.
A piece that begins at a line break needs only the lines above that begin at most ABOVE_REACH characters before it.
"""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final, NamedTuple

REACH: Final = 2_200
"""Characters of the longest value and its context."""
CONTEXT_REACH: Final = 40
"""Characters before a value in which a context word counts."""
ABOVE_REACH: Final = 160
"""Characters of the lines above that the pattern of a value may read."""
Zone = tuple[int, int]
"""A range of positions, the second excluded."""
_WORDS: Final = "0-9A-Za-z"


class Match(NamedTuple):
    """A value found in a text, from `start` up to `end`, which is excluded."""

    start: int
    end: int
    entity: str
    score: float


Value = tuple[int, int, str, float]
"""A `Match` as a plain tuple, which is created five times as fast."""


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """A rule: a pattern, checks that a pattern cannot express, and fixed scores of matching values.

    `pattern` and `opening` are in the syntax that `re` and RE2 share, with ASCII classes, bounded repeats, and no
    character beyond Latin-1. The value is the pattern's first group, if it has one; the part before the group may match
    on lines above. A second group stands behind the value, in the same piece of a joined text. Every match begins with
    a match of `opening` (by default, of the pattern). `context` lists words that raise the score to `context_score`
    when one stands before the value on its line, at most CONTEXT_REACH characters away, or in the name of its column or
    key.
    """

    entity: str
    pattern: str
    score: float = 0.0
    context_score: float = 0.0
    context: str = ""
    check: Callable[[str], bool] | None = None
    # Returns the number of characters of a match that are the value; 0 for no value.
    trim: Callable[[str], int] | None = None
    # A class of characters; a run of them, up to `longest_tail`, belongs to the match after the pattern.
    tail: str = ""
    longest_tail: int = 0
    # Upper bound of the characters that the pattern reads.
    longest: int = 100
    # Returns whether the text before a position shows that no value begins there.
    refuted: Callable[[str, int], bool] | None = None
    # Returns the start of the value for a match that begins at a position; the position itself if no value.
    widen: Callable[[str, int], int] | None = None
    opening: str = ""
    # True if every value has a digit.
    numeric: bool = True
    # Returns whether a span is a value in some countries, which the document or the policy names.
    regional: Callable[[str, int, int, Collection[str]], bool] | None = None
    # Characters that may not stand directly before or after a value.
    before: str = _WORDS
    after: str = _WORDS

    @property
    def best_score(self) -> float:
        """Highest score of the rule."""
        return max(self.score, self.context_score)

    @property
    def has_group(self) -> bool:
        """Returns whether the value is a group of the pattern instead of the whole match."""
        return re.compile(self.pattern).groups > 0

    @property
    def begins(self) -> str:
        """An RE2 pattern found wherever a match begins, or one character earlier if `before` is set."""
        before = f"[^{self.before}]" if self.before else ""
        after = f"[^{self.after}]" if self.after and not self.trim else ""
        return f"{before}(?:{self.opening})" if self.opening else f"{before}(?:{self.pattern}){after}"


def line_above(text: str, start: int) -> int:
    """Returns the position from which to read, so that values after the line start `start` are found as usual."""
    return text.find("\n", max(start - ABOVE_REACH - 1, 0), start) + 1 if start > ABOVE_REACH else 0
