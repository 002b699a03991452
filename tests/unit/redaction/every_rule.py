"""Reference implementation of the search: every rule by `re` over the whole text, without windows or pre-filter."""

import bisect
import re
from collections.abc import Iterable, Sequence

from redaction.rules.rule import CONTEXT_REACH, Match, Rule, Value
from redaction.search.folding import Folded, with_decoded_escapes, without_unseen
from redaction.search.matching import compiled, scored_values
from redaction.search.normalisation import normalised
from redaction.search.piece_labels import PartLabels, PieceLabels
from redaction.search.spans import resolved


def find_by_every_rule(
    rules: Iterable[Rule], text: str, floor: float, starts: Sequence[int] = (), labels: Sequence[str] = ()
) -> list[Match]:
    """What `Finder.find` should find of a document that tells of no country.

    `labels` are of the pieces of the text that begin at `starts`.
    """
    return resolved(_values([rule for rule in rules if rule.regional is None], text, floor, starts, labels))


def _values(
    rules: Sequence[Rule], text: str, floor: float, starts: Sequence[int], labels: Sequence[str], escapes: int = 3
) -> list[Value]:
    if (seen := without_unseen(text)) is not None:
        return _moved(seen, _values(rules, seen.text, floor, [seen.folded(start) for start in starts], labels, escapes))
    values = [value for rule in rules for value in find_by_rule(rule, text, floor, starts, labels)]
    if escapes and (decoded := with_decoded_escapes(text)) is not None:
        moved = [decoded.folded(start) for start in starts]
        values += _moved(decoded, _values(rules, decoded.text, floor, moved, labels, escapes - 1))
    return values


def _moved(folded: Folded, values: Iterable[Value]) -> list[Value]:
    return [(folded.original(start), folded.original(end), entity, score) for start, end, entity, score in values]


def find_by_rule(
    rule: Rule, text: str, floor: float, starts: Sequence[int] = (), labels: Sequence[str] = ()
) -> list[Value]:
    plain = normalised(text)
    candidates = list(compiled(rule).finditer(plain))
    beside = [
        found
        for found in candidates
        if rule.context
        and (
            _is_beside(rule.context, plain, found.start(1), _label_at(found.start(1), starts, labels))
            or (not labels and _is_below(rule.context, plain, found.start(1)))
        )
    ]
    zones = [(found.start(1), found.start(1) + 1) for found in beside]
    part = PartLabels(PieceLabels(starts, labels), 0, len(plain)) if labels else None
    chosen = beside if rule.context and rule.score < floor else candidates
    return scored_values(rule, plain, floor, part, chosen, zones, 0)


def _label_at(place: int, starts: Sequence[int], labels: Sequence[str]) -> str:
    return labels[bisect.bisect_right(starts, place) - 1] if labels else ""


def _is_beside(words: str, text: str, start: int, label: str) -> bool:
    low = max(text.rfind("\n", 0, start) + 1, start - CONTEXT_REACH)
    before = text[low - 1 : start] if low else f"\n{text[:start]}"
    pattern = re.compile(rf"(?i)[^A-Za-z](?:{words})s?(?:[^A-Za-z]|\Z)", re.ASCII)
    return any(pattern.search(one) for one in (f"\n{label}", before))


def _is_below(words: str, text: str, start: int) -> bool:
    """Returns whether a word ends the short line above, and the value stands near the beginning of its line."""
    line = text.rfind("\n", 0, start) + 1
    above = text[text.rfind("\n", 0, max(line - 1, 0)) + 1 : max(line - 1, 0)]
    if not line or start - line > CONTEXT_REACH or len(above) > 120:
        return False
    last = above[-CONTEXT_REACH:]
    tail = len(last) - len(re.split("[0-9]", last)[-1])
    pattern = re.compile(rf"(?i)(?<![A-Za-z])(?:{words})s?(?![A-Za-z])", re.ASCII)
    return pattern.search(above, max(len(above) - len(last) + tail, 0)) is not None
