"""Sweeps the parts of documents that hold text: paragraph by paragraph, whatever runs a paragraph is divided into."""

import html
import re
from typing import Final

from backend.redaction.formats.outcome import WithheldError
from backend.redaction.sweep import Sweep

_PIECE: Final = re.compile(
    r"(?P<start><(?P<name>(?:\w+:)?(?:t|delText|instrText))(?:\s[^<>]*)?(?<!/)>)(?P<text>[^<]*)(?P<end></(?P=name)>)"
    r"|(?P<line></w:p>|<w:(?:br|cr)\b[^<>]*/>)|(?P<gap><w:tab/>|</w:tc>)"
)
_PERSON: Final = re.compile(r'( w:(?:author|initials)=")([^"]*)(")')
_TIME: Final = re.compile(r' w:date="[^"]*"')
# Texts of other elements: numbers and words of the format.
_OTHER: Final = re.compile(r">([^<>]*[^<>\s][^<>]*)<")
_OF_THE_FORMAT: Final = re.compile(r"\s*[-.\w%]{1,40}\s*", re.ASCII)
_NAMESPACE: Final = re.compile(
    r'xmlns:w="http://(?:schemas\.openxmlformats\.org|purl\.oclc\.org/ooxml)/wordprocessingml/'
)


def sweep_word_part(sweep: Sweep, part: str) -> str:
    """Returns a part of a document with its text and the names of its authors swept.

    A value that several runs divide is replaced in the first of them, and taken out of the others.

    Raises:
        WithheldError: it has text elsewhere than in runs.
    """
    if _NAMESPACE.search(part) is None or not all(
        map(_OF_THE_FORMAT.fullmatch, _OTHER.findall(_PIECE.sub("<x/>", part)))
    ):
        raise WithheldError("office", "embedded")
    pieces = list(_PIECE.finditer(part))
    texts = [_text(piece) for piece in pieces]
    values = sweep.values("".join(texts))
    done: list[str] = []
    place = at = index = 0
    for piece, text in zip(pieces, texts, strict=True):
        low, at = at, at + len(text)
        while index < len(values) and values[index][1] <= low:
            index += 1
        if piece["start"] is None:
            continue
        new, read, following = "", low, index
        while following < len(values) and values[following][0] < at:
            start, end, entity, _ = values[following]
            new += text[read - low : max(start, low) - low] + (f"[{entity}]" if start >= low else "")
            read = min(end, at)
            following += 1
        if following > index:
            new += text[read - low :]
            done += part[place : piece.start("text")], html.escape(new, quote=False)
            place = piece.end("text")
    done.append(part[place:])
    return _TIME.sub("", _authors(sweep, "".join(done)))


def _text(piece: re.Match[str]) -> str:
    if piece["start"] is not None:
        return html.unescape(piece["text"])
    return "\n" if piece["line"] is not None else "\t"


def _authors(sweep: Sweep, part: str) -> str:
    names = list(dict.fromkeys(found[2] for found in _PERSON.finditer(part)))
    changed = sweep.cells([html.unescape(name) for name in names], ["author name"] * len(names))
    new = {names[index]: html.escape(text) for index, text in changed.items()}
    return _PERSON.sub(lambda found: found[1] + new.get(found[2], found[2]) + found[3], part)
