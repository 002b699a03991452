"""One rule: what a value of an entity type looks like, and how sure a match is. (docs/redaction.md).

Every rule is local: whether it matches at a place depends on at most REACH characters to either side, and no value
crosses a line break. So a long text may be cut anywhere, as long as each piece keeps REACH characters of its
neighbours; at line breaks what it must keep are the lines above that begin at most ABOVE_REACH characters before.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

# A value's longest form, and what is read beside it.
REACH: Final = 2_200
CONTEXT_REACH: Final = 40
# What is read of the lines above a value.
ABOVE_REACH: Final = 160
_WORDS: Final = "0-9A-Za-z"
# From one place up to another.
Zone = tuple[int, int]
_BEYOND_ASCII: Final = re.compile(r"[^\x00-\x7f]+")


class Match(NamedTuple):
    """A value found in a text, from `start` up to `end`."""

    start: int
    end: int
    entity: str
    score: float


# A Match that is never asked for its fields, in a fifth of the time.
Value = tuple[int, int, str, float]


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """A pattern, checks that it cannot express, and the fixed scores of what passes.

    `pattern` and `opening` are in the syntax that `re` and RE2 share, with ASCII classes, bounded repeats, and no
    character beyond Latin-1. The value is the pattern's first group, if it has one; what it has before that may stand
    on lines above. Every match begins with what
    `opening` matches (the pattern itself, where none is given). `context` lists words that raise the score to
    `context_score` when one stands before the value on its line, at most CONTEXT_REACH characters away, or in the name
    of its column or key.
    """

    entity: str
    pattern: str
    score: float = 0.0
    context_score: float = 0.0
    context: str = ""
    check: Callable[[str], bool] | None = None
    # How many characters of a match are the value; 0 for none.
    trim: Callable[[str], int] | None = None
    # A class of characters, as many of which as there are, up to `longest_tail`, may follow the pattern.
    tail: str = ""
    longest_tail: int = 0
    # The most characters that the pattern takes, or more.
    longest: int = 100
    # Where a value begins whose match begins at a place; the place itself for "not a value".
    widen: Callable[[str, int], int] | None = None
    opening: str = ""
    # Characters that may not stand directly before or after a value.
    before: str = _WORDS
    after: str = _WORDS

    @property
    def best_score(self) -> float:
        """The most that the rule can give."""
        return max(self.score, self.context_score)

    @property
    def has_group(self) -> bool:
        """Whether the value is only a part of the pattern."""
        return re.compile(self.pattern).groups > 0

    @property
    def begins(self) -> str:
        """An RE2 pattern found wherever a match begins, from the character before it if `before` says something."""
        before = f"[^{self.before}]" if self.before else ""
        after = f"[^{self.after}]" if self.after and not self.trim else ""
        return f"{before}(?:{self.opening})" if self.opening else f"{before}(?:{self.pattern}){after}"


def normalised(text: str) -> str:
    """The text as rules read it, character for character, in Latin-1.

    Digits, dashes, spaces, quotes and full-width letters are plain ones; every other character beyond Latin-1 is a
    letter.
    """
    return text if text.isascii() else _BEYOND_ASCII.sub(lambda found: found[0].translate(_PLAIN), text)


def line_above(text: str, start: int) -> int:
    """Where a text must be read from so that the lines from `start` on are found as in the whole of it."""
    return text.find("\n", max(start - ABOVE_REACH - 1, 0), start) + 1 if start > ABOVE_REACH else 0


def _plain() -> Mapping[int, str]:
    table = defaultdict(lambda: "\u00ff", {character: chr(character) for character in range(0x100)})
    table |= {0xFF00 + offset: chr(0x20 + offset) for offset in range(1, 0x5F)}
    table |= dict.fromkeys([*range(0x2010, 0x2016), 0x2043, 0x2212, 0xFE58, 0xFE63, 0xFF0D], "-")
    table |= dict.fromkeys([0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000], " ")
    table |= dict.fromkeys([0x2018, 0x2019, 0x201B, 0x2032], "'")
    table |= dict.fromkeys([0x85, 0x201C, 0x201D, 0x201E, 0x2028, 0x2029], '"')
    for zero in (0x660, 0x6F0, 0x7C0, 0x966, 0x9E6, 0xA66, 0xAE6, 0xB66, 0xBE6, 0xC66, 0xCE6, 0xD66, 0xE50, 0xED0):
        table |= {zero + digit: str(digit) for digit in range(10)}
    return table


_PLAIN: Final = _plain()
