"""Sweeps the parts of documents that hold text: paragraph by paragraph, whatever runs a paragraph is divided into."""

import html
import re
from typing import Final

from backend.redaction.formats.open_elements import TableLabels
from backend.redaction.formats.outcome import WithheldError
from backend.redaction.sweep import Sweep

_PIECE: Final = re.compile(
    r"(?P<start><(?P<name>(?:\w+:)?(?:t|delText|instrText))(?:\s[^<>]*)?(?<!/)>)(?P<text>[^<]*)(?P<end></(?P=name)>)"
    r"|(?P<line></w:p>|<w:(?:br|cr)\b[^<>]*/>)|(?P<tab><w:tab/>)|(?P<gap></w:tc>)"
    r"|(?P<table></?w:tbl>|</?w:tr\b[^<>]*>|<w:tc>)"
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
    for index in range(1, len(texts)):
        if pieces[index]["tab"] is not None and pieces[index - 1]["tab"] is not None:
            texts[index] = ""
    values = sweep.values("".join(texts), _labelled_cells(pieces, texts))
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
    if piece["tab"] is not None:
        # What it divides is read as one line: "Name:", and the name.
        return " "
    return "\n" if piece["line"] is not None else "\t" if piece["gap"] is not None else ""


def _labelled_cells(pieces: list[re.Match[str]], texts: list[str]) -> list[tuple[int, str, str]]:
    """Returns the cells of tables that a row or column names: where each begins in the joined texts, it, its label."""
    tables: list[TableLabels] = []
    cells: list[tuple[int, str, str]] = []
    # Where open cells begin, by the texts before them.
    begun: list[tuple[int, int]] = []
    at = 0
    for index, (piece, text) in enumerate(zip(pieces, texts, strict=True)):
        mark = piece[0] if piece["table"] is not None or piece["gap"] is not None else ""
        if mark == "<w:tbl>":
            tables.append(TableLabels())
        elif mark == "</w:tbl>" and tables:
            tables.pop()
        elif mark.startswith("<w:tr") and tables:
            tables[-1].open("tr")
        elif mark == "<w:tc>" and tables:
            tables[-1].open("td")
            begun.append((index, at))
        elif mark == "</w:tc>" and begun:
            first, start = begun.pop()
            cell = "".join(texts[first:index])
            if tables and (label := tables[-1].head(cell)):
                cells.append((start, cell, label))
        at += len(text)
    return cells


def _authors(sweep: Sweep, part: str) -> str:
    names = list(dict.fromkeys(found[2] for found in _PERSON.finditer(part)))
    changed = sweep.cells([html.unescape(name) for name in names], ["author name"] * len(names))
    new = {names[index]: html.escape(text) for index, text in changed.items()}
    return _PERSON.sub(lambda found: found[1] + new.get(found[2], found[2]) + found[3], part)
