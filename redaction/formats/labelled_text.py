"""Sweeps texts with named values: each value with its name as label, and then the whole text as plain text.

Thus nothing is left out, even if a text only resembles its format. A model reads only the values and comments, so
that it takes no name or mark for a value.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from redaction.formats.outcome import BATCH, LONGEST_VALUE

if TYPE_CHECKING:
    from redaction.sweep import Sweep


def as_text(new: str) -> str:
    """Returns the text of a swept value unchanged."""
    return new


class Labelled(NamedTuple):
    """A value from `start` up to `end`: its decoded text, its label, and the function that encodes its new text.

    A value whose `text` is None cannot be read, and is emptied.
    """

    start: int
    end: int
    text: str | None
    label: str = ""
    written: Callable[[str], str] = as_text


FindLabelled = Callable[[str], Iterable[Labelled]]
"""Returns the values of a text, in order; it is given whole lines, one piece of a file after the other."""


def sweep_labelled(
    blocks: Iterable[str], sweep: "Sweep", find: FindLabelled, ends: Sequence[str] = ("\n",)
) -> Iterator[str]:
    """Yields the swept text block by block; accepts any text.

    `find` gets pieces of the text, each cut behind the first of `ends` that occurs in the second half of the held text.
    """
    # Values are replaced in every mode, so that none is counted again as text.
    values = sweep.part(redacts=True)
    yield from sweep.stream(with_values_swept(blocks, values, find, ends), by_rules_only=True)
    add_counts(sweep, values)


def add_counts(sweep: "Sweep", values: "Sweep") -> None:
    """Adds the counts of a file's labelled values to the counts of the file."""
    if not sweep.redacts and values.counts.emptied_values:
        # Values stay unchanged in this mode.
        values.counts.emptied_values = 0
        values.counts.unsearched_files = 1
    sweep.counts.add(values.counts)


def with_values_swept(blocks: Iterable[str], values: "Sweep", find: FindLabelled, ends: Sequence[str]) -> Iterator[str]:
    """Yields a text block by block with only its labelled values swept."""
    find = _without_plain(find) if values.by_rules_only else find
    held: list[str] = []
    size = 0
    for block in blocks:
        held.append(block)
        size += len(block)
        if size < BATCH or ("\n" not in block and size <= LONGEST_VALUE):
            continue
        text = "".join(held)
        places = (text.rfind(end, size // 2) + len(end) for end in ends)
        end = next((place for place, one in zip(places, ends, strict=True) if place >= len(one)), 0)
        end = end or text.rfind("\n") + 1 or len(text)
        yield swept_values(text[:end], values, find)
        held = [text[end:]]
        size = len(held[0])
    yield swept_values("".join(held), values, find)


def _without_plain(find: FindLabelled) -> FindLabelled:
    """Returns a finder without unlabelled plain texts, which the later sweep of the whole text covers."""
    return lambda text: (
        one for one in find(text) if one.label or one.written is not as_text or one.text != text[one.start : one.end]
    )


def swept_values(text: str, values: "Sweep", find: FindLabelled) -> str:
    """Returns a text with its values swept, and unreadable values emptied."""
    found = list(find(text))
    read = [one for one in found if one.text is not None]
    changed = values.cells([one.text or "" for one in read], [one.label for one in read])
    new = {read[index].start: read[index].written(swept) for index, swept in changed.items()}
    parts: list[str] = []
    place = 0
    for one in found:
        if one.text is None:
            values.counts.emptied_values += 1
        elif one.start not in new:
            continue
        parts += text[place : one.start], new.get(one.start, "")
        place = one.end
    parts.append(text[place:])
    return "".join(parts)
