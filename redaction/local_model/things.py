"""Finds names of things, such as firms and products, which the local model often takes for people and places."""

import bisect
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from redaction.local_model.weighed_words import Word
from redaction.rules.persons import (
    comes_before_name,
    comes_behind_name,
    has_thing_behind_hyphen,
    is_quantity,
    is_rank,
    may_head_goods,
    names_things,
)
from redaction.rules.tables import shared

Span = tuple[int, int]

_NAMES_AND_PLACES: Final = frozenset({"PERSON", "LOCATION"})
# Most capitalised words of one name of a thing.
_LONGEST_NAME: Final = 3
_TITLE: Final = re.compile(shared("titles"))
_DOSE: Final = re.compile(
    r"[ \t][0-9]{1,5}(?:[.,/][0-9]{1,4})?[ \t]?"
    r"(?:[mµ]?g|mcg|kg|m?l|cl|mm|cm|i\.?[eu]\.?|ui|ie|%|mmol|w|kw|v|gb|tb)(?!\w)",
    re.IGNORECASE,
)
# A capital inside a word, except in family names such as McDonald, DeVito, LaSalle.
_HUMP: Final = re.compile(
    r"(?!(?:Ma?c|De|Di|Da|Du|La|Le|Lo|Van|Von|Fitz|Ben)[A-Z]|\w+(?:[Vv]ille|[Bb]ourg|[Bb]urg|[Ss]tadt|[Dd]orf)\Z)"
    r"[A-Z][a-z]{2,}[A-Z]\w*"
)
_ARTICLE: Final = re.compile(r"(?<![\w'])(?:[Tt]he|les?|aux?)[ ]\Z")
_FIELD: Final = re.compile(r"^[ \t*\u2022-]{0,4}([^\W\d_][^\r\n:=|]{1,40}?)[ \t]?:[ \t]{1,8}(?=[^\s])", re.MULTILINE)
_PARTICIPANTS: Final = re.compile(shared("participants"), re.IGNORECASE)
_IN_BRACKETS: Final = re.compile(r"\(([^()\r\n]{1,40})\)")
_LINE: Final = re.compile(r"[^\r\n]+")
_CELL: Final = re.compile(r"\S+(?: \S+)*")
_LIKELY: Final = 0.5
_BLANKS: Final = frozenset({" ", " & "})
_OF: Final = frozenset({"de", "di", "van", "von"})
_PHRASE: Final = re.compile(r"[^\W\d_][\w-]*(?: & | )[^\W\d_][\w-]*(?: [^\W\d_][\w-]*){0,4}")
_LEAST_HEADS: Final = 3
_LONGEST_HEAD: Final = 30


def without_things(text: str, words: Sequence[Word]) -> list[Word]:
    """Returns the words of a text, with likelihood 0 of a person or place for names of things."""
    things = _things(text, words)
    spans = [*_fields(text), *_cells(text)]
    spans = sorted([*spans, *_repetitions(text, [*spans, *_phrases(text, words, things)])])
    starts = [start for start, _ in spans]
    return [
        word._replace(likelihood=0.0)
        if word.entity in _NAMES_AND_PLACES and (index in things or _is_in(word, spans, starts))
        else word
        for index, word in enumerate(words)
    ]


def _is_in(word: Word, spans: Sequence[Span], starts: Sequence[int]) -> bool:
    at = bisect.bisect_right(starts, word.start) - 1
    return at >= 0 and word.end <= spans[at][1]


def _things(text: str, words: Sequence[Word]) -> set[int]:
    things: set[int] = set()
    for index, word in enumerate(words):
        written = text[word.start : word.end]
        if comes_before_name(written) and not _goes_on(text, words, index):
            run = _run(text, words, index, 1) or _run_behind_particle(text, words, index)
            if run and _TITLE.fullmatch(text[words[run[0]].start : words[run[0]].end]) is None:
                things.update((index, *run))
        if not written[0].isupper():
            continue
        if comes_behind_name(written) and (run := _run(text, words, index, -1)):
            things.update((index, *run))
        elif _DOSE.match(text, word.end):
            things.update((index, *_run(text, words, index, -1)))
        elif _HUMP.fullmatch(written) is not None or is_rank(written) or has_thing_behind_hyphen(written):
            things.add(index)
        elif word.entity == "PERSON" and _ARTICLE.search(text, max(word.start - 6, 0), word.start):
            things.update((index, *_run(text, words, index, 1)))
    return things


def _phrases(text: str, words: Sequence[Word], things: Collection[int]) -> Iterator[Span]:
    """Yields the span of the first two words of each name of a thing with two or more words."""
    for index in things:
        if index - 1 not in things and index + 1 in things:
            low, high = words[index], words[index + 1]
            if text[low.end : high.start] in _BLANKS and text[low.start].isupper() and text[high.start].isupper():
                yield low.start, high.end


def _repetitions(text: str, spans: Iterable[Span]) -> Iterator[Span]:
    """Yields the spans where names of things with two or more words occur again."""
    phrases = {text[start:end] for start, end in spans if _PHRASE.fullmatch(text, start, end) is not None}
    if not phrases:
        return
    first = re.compile(rf"(?<!\w)(?:{'|'.join(sorted(map(re.escape, phrases), reverse=True))})(?!\w)")
    for found in first.finditer(text):
        yield found.span()


def _goes_on(text: str, words: Sequence[Word], index: int) -> bool:
    """Returns whether a capitalised word continues a name of two or more words."""
    before = _run(text, words, index, -1) if text[words[index].start].isupper() else []
    if not before:
        return False
    word = words[before[0]]
    is_likely = word.entity == "PERSON" and word.likelihood >= _LIKELY
    return is_likely or _TITLE.fullmatch(text[word.start : word.end]) is not None


def _run_behind_particle(text: str, words: Sequence[Word], index: int) -> list[int]:
    """Returns the capitalised words behind a word and a particle: Crohn in "maladie de Crohn"."""
    if index + 2 >= len(words) or text[words[index + 1].start : words[index + 1].end] not in _OF:
        return []
    if text[words[index].end : words[index + 1].start] != " ":
        return []
    return _run(text, words, index + 1, 1)


def _run(text: str, words: Sequence[Word], index: int, step: int) -> list[int]:
    """Returns the capitalised words directly before or behind a word, separated by blanks."""
    run: list[int] = []
    while len(run) < _LONGEST_NAME and 0 <= index + step < len(words):
        low, high = sorted((words[index], words[index + step]))
        if text[low.end : high.start] not in _BLANKS or not text[words[index + step].start].isupper():
            break
        index += step
        run.append(index)
    return run


def _fields(text: str) -> Iterator[Span]:
    """Yields the rest of the line behind the name of a field for things."""
    for field in _FIELD.finditer(text):
        if names_things(field[1]):
            end = text.find("\n", field.end())
            yield field.end(), len(text) if end < 0 else end
        elif _PARTICIPANTS.fullmatch(field[1]) is not None:
            # Behind each name comes the party that it represents, or a role.
            end = text.find("\n", field.end())
            for role in _IN_BRACKETS.finditer(text, field.end(), len(text) if end < 0 else end):
                yield role.span(1)


def _cells(text: str) -> Iterator[Span]:
    """Yields the heads, and the cells with things, of tables aligned by blanks."""
    heads: list[tuple[int, bool]] = []
    for line in _LINE.finditer(text):
        if "  " not in line[0] and "\t" not in line[0]:
            heads = []
            continue
        cells = [(cell.start(), cell.end(), cell[0]) for cell in _CELL.finditer(line[0].expandtabs(1))]
        if _are_heads([cell for _, _, cell in cells]):
            goods = any(is_quantity(cell) for _, _, cell in cells)
            heads = [(start, names_things(cell) or (goods and may_head_goods(cell))) for start, _, cell in cells]
            yield line.span()
            continue
        columns = [start for start, _ in heads]
        for start, end, _ in cells if heads else ():
            at = bisect.bisect_right(columns, start + 1) - 1
            if at >= 0 and heads[at][1]:
                yield line.start() + start, line.start() + end


def _are_heads(cells: Sequence[str]) -> bool:
    return (
        len(cells) >= _LEAST_HEADS
        and not any(len(cell) > _LONGEST_HEAD or any(map(str.isdigit, cell)) for cell in cells)
        and any(names_things(cell) or is_quantity(cell) or may_head_goods(cell) for cell in cells)
    )
