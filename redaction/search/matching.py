"""Converts matches of a rule's pattern to values with scores."""

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from redaction.rules.rule import Rule, Value, Zone
from redaction.search.linear_search import at_first_characters, first_characters
from redaction.search.piece_labels import PartLabels

# A UUID, or hexadecimal groups as in traces, with a letter among many digits.
_IDENTIFIER: Final = re.compile(
    r"(?<![0-9A-Za-z-])(?:[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}"
    r"|(?=[0-9-]{0,40}[A-Fa-f])(?=(?:[0-9A-Fa-f]-?){24})[0-9A-Fa-f]{1,32}(?:-[0-9A-Fa-f]{1,32}){1,5})(?![0-9A-Za-z-])"
)
_LONGEST_IDENTIFIER: Final = 80
_NOWHERE: Final = (1 << 62, 1 << 62)


def scored_values(
    rule: Rule,
    text: str,
    floor: float,
    labels: PartLabels | None,
    candidates: Sequence[re.Match[str]],
    zones: Sequence[Zone],
    offset: int,
) -> list[Value]:
    """Returns the candidates with a score of at least `floor` that are values; they may overlap.

    `text` is normalised, and `labels` are of its joined pieces. `candidates` are matches of the rule's pattern, in
    order, and `zones` the ranges beside its context words, in order and disjoint; the candidates of a rule that reaches
    `floor` by its context alone lie in zones. `offset` is added to the positions.
    """
    if labels is not None and rule.has_group:
        candidates = [found for found in candidates if not labels.in_different_pieces(found.start(), found.start(1))]
        if candidates and candidates[0].re.groups > 1:
            # The second group must follow the value.
            candidates = [
                found
                for found in candidates
                if found.start(2) < 0 or not labels.in_different_pieces(found.start(1), found.start(2))
            ]
    values = _values(rule, text, [found.span(1) for found in candidates])
    if (refuted := rule.refuted) is not None:
        values = [span for span in values if not refuted(text, span[0])]
    if rule.numeric and "-" in text:
        # The comparison comes before the call, because few values are beside a dash.
        values = [
            (start, end)
            for start, end in values
            if (text[end : end + 1] != "-" and text[start - 1 : start] != "-") or not _in_identifier(text, start, end)
        ]
    entity, score = rule.entity, rule.score
    if score < floor:
        score = rule.context_score
    elif zones and rule.context_score > score:
        high, near = rule.context_score, _inside(values, zones)
        return [
            (start + offset, end + offset, entity, high if near_context else score)
            for (start, end), near_context in zip(values, near, strict=True)
        ]
    return [(start + offset, end + offset, entity, score) for start, end in values]


def _in_identifier(text: str, start: int, end: int) -> bool:
    """Returns whether a span is a part of an identifier of hexadecimal groups, such as a UUID."""
    return any(
        found.start() <= start and end <= found.end() and found.end() - found.start() > end - start
        for found in _IDENTIFIER.finditer(text, max(start - _LONGEST_IDENTIFIER, 0), end + _LONGEST_IDENTIFIER)
    )


def _inside(spans: Iterable[Zone], zones: Sequence[Zone]) -> Iterator[bool]:
    """Yields for each span, in order, whether it begins in one of the zones."""
    following = iter([*zones, _NOWHERE])
    low, high = next(following)
    for start, _ in spans:
        while start >= high:
            low, high = next(following)
        yield start >= low


def _values(rule: Rule, text: str, spans: list[Zone]) -> list[Zone]:
    """Returns the spans that are values, each cut or widened to its value."""
    if rule.tail:
        return _with_tails(rule, text, spans)
    if rule.widen is not None:
        widen = rule.widen
        wide = [(widen(text, start), start, end) for start, end in spans]
        return [(first, end) for first, start, end in wide if first < start]
    if rule.trim is not None:
        return _trimmed(rule, text, spans)
    return spans if rule.check is None else _checked(rule, text, spans)


def _checked(rule: Rule, text: str, spans: Iterable[Zone]) -> list[Zone]:
    assert rule.check is not None
    check = rule.check
    known: dict[str, bool] = {}
    values = []
    for span in spans:
        found = text[span[0] : span[1]]
        if (right := known.get(found)) is None:
            right = known[found] = check(found)
        if right:
            values.append(span)
    return values


def _trimmed(rule: Rule, text: str, spans: Iterable[Zone]) -> list[Zone]:
    assert rule.trim is not None
    trim = rule.trim
    followers = _class(rule.after)
    known: dict[str, int] = {}
    values = []
    size = len(text)
    last = -1
    for start, end in spans:
        if end <= last:
            continue
        found = text[start:end]
        if (length := known.get(found)) is None:
            length = known[found] = trim(found)
        stop = start + length
        if length and (stop == size or text[stop] not in followers):
            values.append((start, stop))
            last = stop
    return values


def _with_tails(rule: Rule, text: str, spans: Iterable[Zone]) -> list[Zone]:
    """Returns the values of a rule whose matches continue with a run of characters; each character is read once.

    Of matches with one end only the first is kept, because it contains the others.
    """
    assert rule.trim is not None
    run = re.compile(f"{rule.tail}*+", re.ASCII)
    most = rule.longest_tail
    values: list[Zone] = []
    run_end = -1
    held = False
    for start, head_end in spans:
        if head_end > run_end:
            found = run.match(text, head_end)
            run_end = found.end() if found is not None else head_end
            held = False
        if run_end > head_end + most:
            # The run is longer than a value may be, so that its end must not be trimmed.
            values.append((start, head_end + most))
        elif not held:
            held = True
            if (length := rule.trim(text[start:run_end])) > 0:
                values.append((start, start + length))
    return values


@functools.cache
def _class(characters: str) -> frozenset[str]:
    """Returns the Latin-1 characters of a class."""
    pattern = re.compile(f"[{characters}]") if characters else None
    return frozenset(one for one in map(chr, range(0x100)) if pattern is not None and pattern.match(one))


@functools.cache
def compiled(rule: Rule) -> re.Pattern[str]:
    """Returns a pattern that matches at every start of a match, with the value as its first group."""
    before = f"(?<![{rule.before}])" if rule.before else ""
    after = f"(?![{rule.after}])" if rule.after and not rule.trim else ""
    value = rule.pattern if rule.has_group else f"({rule.pattern})"
    first = first_characters(rule.opening or rule.pattern)
    return re.compile(at_first_characters(first, f"{before}(?={value}{after})"), re.ASCII)
