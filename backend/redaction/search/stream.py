"""Sweeps a stream of text in bounded memory, with the same result as sweeping the whole text."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from backend.redaction.rules.rule import REACH, Value, line_above
from backend.redaction.search.secret_blocks import open_block
from backend.redaction.search.spans import resolved

_BATCH: Final = 512 * 1024


def sweep_stream(
    blocks: Iterable[str],
    find_all: Callable[[str], Sequence[Value]],
    swept: Callable[[str, Sequence[Value]], str],
    batch: int = _BATCH,
) -> Iterator[str]:
    """Yields the swept text block by block; holds about `batch` characters.

    A batch ends at a line break, or, in a longer line, between two values; REACH characters are kept as context for
    the next. A chain of overlapping values that fills a batch is cut, and yields a replacement on either side.
    """
    text = ""
    done = 0
    for block in blocks:
        text += block
        if len(text) - done < max(batch, 2 * REACH):
            continue
        if (end := text.rfind("\n", done) + 1) > done:
            # A secret of many lines stays whole, unless it fills the batch.
            end = open_block(text, done, end)
            if end == done:
                end = text.rfind("\n", done) + 1
            yield swept_part(text[:end], done, end, find_all(text[:end]), swept)
            kept = line_above(text, end)
            text, done = text[kept:], end - kept
            continue
        matches = find_all(text)
        end = _between(matches, done, len(text) - REACH)
        yield swept_part(text, done, end, matches, swept)
        kept = max(end - REACH, 0)
        text, done = text[kept:], end - kept
    if len(text) > done:
        yield swept_part(text, done, len(text), find_all(text), swept)


def _between(matches: Sequence[Value], done: int, latest: int) -> int:
    for group in reversed(resolved(matches)):
        if group.start < latest < group.end:
            return group.start if group.start > done else latest
    return latest


def swept_part(
    text: str, start: int, end: int, values: Sequence[Value], swept: Callable[[str, Sequence[Value]], str]
) -> str:
    """Returns a part of a text with the values in it replaced, those that reach into it too."""
    here = [
        (max(low, start) - start, min(high, end) - start, entity, score)
        for low, high, entity, score in values
        if high > start and low < end
    ]
    return swept(text[start:end], resolved(here))
