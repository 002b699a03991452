"""One rule: what a value of an entity type looks like, and how sure a match is. (docs/redaction.md).

Every rule is local: whether it matches at a place depends on at most REACH characters to either side, and no value
crosses a line break. So a long text may be cut anywhere, as long as each piece keeps REACH characters of its
neighbours; at line breaks what it must keep are the lines above that begin at most ABOVE_REACH characters before.
"""

import bisect
import functools
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Final, NamedTuple, Protocol

from backend.runtime.redaction.linear_search import Search, search_for

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


# In half the time that its own constructor takes.
_match: Final[Callable[[tuple[int, int, str, float]], Match]] = functools.partial(tuple.__new__, Match)


class Labels(Protocol):
    """The labels of the pieces that a text joins by line breaks."""

    def at(self, place: int) -> str:
        """The plain label of the piece at a place, "" for none."""
        ...

    def apart(self, first: int, second: int) -> bool:
        """Whether two places are in different pieces."""
        ...


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


class _Tails:
    """How far the matches of one rule reach in one text, where they may overlap a thousandfold.

    Of several that end together the first holds the others, so no character is read again for each.
    """

    def __init__(self, rule: Rule, text: str) -> None:
        assert rule.trim is not None
        self._trim = rule.trim
        self._text = text
        self._most = rule.longest_tail
        self._run = re.compile(f"{rule.tail}*+", re.ASCII)
        # How far the characters of the tail go on from the place last asked for, and whether a match reached that far.
        self._run_end = -1
        self._ends_seen = False

    def end(self, start: int, head_end: int) -> int:
        """Where the match ends that begins at `start`, and whose pattern ends at `head_end`.

        `start` for one that is nothing when trimmed, or that an earlier one holds.
        """
        if head_end > self._run_end:
            found = self._run.match(self._text, head_end)
            self._run_end = found.end() if found is not None else head_end
            self._ends_seen = False
        if self._run_end > head_end + self._most:
            # Nobody sees where it is cut.
            return head_end + self._most
        if self._ends_seen:
            return start
        self._ends_seen = True
        return start + self._trim(self._text[start : self._run_end])


class Contexts:
    """Which places of a text stand beside context words: on the same line behind them, or below a label with them.

    `near` gives the zones outside of which no word can stand before a place; without it every place is looked at.
    """

    def __init__(
        self, text: str, labels: Labels | None = None, near: Callable[[str], Sequence[Zone]] | None = None
    ) -> None:
        self._text = text
        self._labels = labels
        self._near = near
        self._zones: dict[str, tuple[list[int], Sequence[Zone]]] = {}
        self._known: dict[tuple[str, int], bool] = {}
        # Where a word was found last, and before which place.
        self._last: dict[str, tuple[int, int]] = {}

    def beside(self, words: str, start: int) -> bool:
        """Whether one of the words stands at most CONTEXT_REACH characters before a place, or in its label."""
        if (known := self._known.get((words, start))) is None:
            known = self._known[words, start] = self._stands(words, start)
        return known

    def _stands(self, words: str, start: int) -> bool:
        if self._labels is not None and tells(words, self._labels.at(start)):
            return True
        if self._near is not None and not self._is_near(words, start):
            return False
        low = start - CONTEXT_REACH if start > CONTEXT_REACH else 0
        low = max(self._text.rfind("\n", low, start) + 1, low)
        # What stands before one place often stands before the next.
        if low <= self._last.get(words, (-1, 0))[0] and self._last[words][1] <= start:
            return True
        before = self._text[low - 1 : start] if low else "\n" + self._text[:start]
        found = _search_words(words)(before.encode("latin-1"), 0)
        if found >= 0:
            self._last[words] = low + found, start
        return found >= 0

    def _is_near(self, words: str, start: int) -> bool:
        assert self._near is not None
        if (found := self._zones.get(words)) is None:
            zones = self._near(words)
            found = self._zones[words] = [low for low, _ in zones], zones
        lows, zones = found
        zone = bisect.bisect_right(lows, start) - 1
        return zone >= 0 and start <= zones[zone][1]


def find(
    rule: Rule,
    text: str,
    floor: float,
    labels: Labels | None = None,
    starts: Iterable[int] | None = None,
    contexts: Contexts | None = None,
    offset: int = 0,
) -> list[Match]:
    """Every match of at least `floor` in a normalised text, overlapping ones too.

    `labels` name the columns or keys whose values the text joins. `starts` are the places where matches can begin;
    without them the whole text is searched. `contexts` are those of the text, where the caller has them. `offset` is
    added to the places of the matches.
    """
    whole, everywhere, ends_well = compiled(rule)
    group = min(whole.groups, 1)
    contexts = contexts or Contexts(text, labels)
    if starts is None:
        starts = [found.start() for found in everywhere.finditer(text)]
    entity, widen = rule.entity, rule.widen
    rises = rule.context_score > rule.score
    values = _Values(rule, text, ends_well)
    matches = []
    for found in filter(None, map(whole.match, repeat(text), starts)):
        start, end = found.span(group)
        if group and labels is not None and labels.apart(found.start(), start):
            continue
        if widen is not None and (start := widen(text, place := start)) == place:
            continue
        score = rule.score
        if score < floor and not contexts.beside(rule.context, start):
            continue
        if (end := values.end(start, end)) == start:
            continue
        if rises and (score < floor or contexts.beside(rule.context, start)):
            score = rule.context_score
        matches.append(_match((start + offset, end + offset, entity, score)))
    return matches


class _Values:
    """Which matches of one rule in one text are values, and how much of each; the same text is judged once."""

    def __init__(self, rule: Rule, text: str, ends_well: re.Pattern[str]) -> None:
        self._text = text
        self._trim = rule.trim
        self._check = rule.check
        self._ends_well = ends_well
        self._tails = _Tails(rule, text) if rule.tail else None
        self._lengths: dict[str, int] = {}

    def end(self, start: int, end: int) -> int:
        """Where the value ends whose match is from `start` up to `end`; `start` where it is none."""
        if self._tails is not None:
            return self._tails.end(start, end)
        if self._trim is None and self._check is None:
            return end
        found = self._text[start:end]
        if (length := self._lengths.get(found)) is None:
            length = self._lengths[found] = self._length(found)
        if length and self._trim is not None and self._ends_well.match(self._text, start + length) is None:
            return start
        return start + length

    def _length(self, found: str) -> int:
        length = len(found) if self._trim is None else self._trim(found)
        return length if self._check is None or self._check(found[:length]) else 0


@functools.lru_cache(maxsize=4096)
def tells(words: str, label: str) -> bool:
    """Whether a column's or key's plain name holds one of a rule's context words."""
    return _search_words(words)(b"\n" + label.encode("latin-1", "replace"), 0) >= 0


@functools.cache
def _search_words(words: str) -> Search:
    """A search for a rule's context words behind another character, as whole words in any case and in the plural."""
    return search_for(rf"(?i)[^A-Za-z](?:{words})s?(?:[^A-Za-z]|$)")


@functools.cache
def compiled(rule: Rule) -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """The patterns of a match, of every place where one begins, and of what may follow a value."""
    before = f"(?<![{rule.before}])" if rule.before else ""
    after = f"(?![{rule.after}])" if rule.after else ""
    whole = before + rule.pattern + ("" if rule.trim else after)
    places = f"{before}(?={rule.opening})" if rule.opening else f"(?={whole})"
    return re.compile(whole, re.ASCII), re.compile(places, re.ASCII), re.compile(after, re.ASCII)


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
