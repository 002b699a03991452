"""Sweeps documents and workbooks of Office Open XML: texts and cells are replaced in place, other markup stays.

Libraries that write these files keep some parts unswept, or lose some. So the file is copied part by part, and a file
with a part that is no text (a picture, a macro, an embedded file) is withheld.
"""

import html
import re
import zipfile
from pathlib import Path
from typing import Final

from redaction.formats.archives import check_directory
from redaction.formats.office_sheets import cell_texts, sweep_workbook
from redaction.formats.open_elements import TableLabels
from redaction.formats.outcome import ArchiveBounds, WithheldError, parser_failures_withheld
from redaction.formats.xml_text import sweep_xml
from redaction.sweep import Sweep

# The parts are held in memory, several times over.
_LARGEST: Final = 64_000_000
_TEXTS: Final = re.compile(r"word/(?:document|header[0-9]*|footer[0-9]*|footnotes|endnotes|comments)\.xml")
_PROPERTIES: Final = re.compile(r"docProps/(?:core|app|custom)\.xml")
_SHEETS: Final = re.compile(r"xl/(?:sharedStrings|worksheets/sheet[0-9]+)\.xml")
_MARKS: Final = re.compile(
    r"\[Content_Types\]\.xml|(?:.*/)?_rels/[^/]*\.rels|customXml/[^/]*\.xml"
    r"|word/(?:styles|stylesWithEffects|settings|webSettings|fontTable|numbering)\.xml"
    r"|xl/(?:workbook|styles|calcChain|metadata|tables/table[0-9]+)\.xml|(?:word|xl)/theme/theme[0-9]*\.xml"
)
_RELATIONS: Final = re.compile(r"(?:.*/)?_rels/[^/]*\.rels")
_EXTERNAL: Final = re.compile(r"<Relationship\b(?=[^<>]*\sTargetMode=\"External\")[^<>]*?\sTarget=\"([^\"]*)\"[^<>]*>")
# Attributes of a link that readers show.
_LINK: Final = re.compile(r"<(?:w:)?hyperlink\b[^<>]*>")
_SHOWN: Final = re.compile(r" (?:display|tooltip|w:tooltip)=\"([^\"]*)\"")
_ANY_TARGET: Final = re.compile(r"<Relationship\b(?=[^<>]*\sTargetMode=)[^<>]*?\sTarget=[\"']([^\"']*)")
# Separator of markup texts that are searched together but unrelated.
_BETWEEN: Final = "\n.\n"
_TABLE: Final = re.compile(r"xl/tables/table[0-9]+\.xml")
_TABLE_COLUMN: Final = re.compile(r"<tableColumn\b[^<>]*?\sname=\"([^\"]*)\"")
_ENCODED_LINE_BREAK: Final = re.compile(r"_x000([aAdD])_")
_NO_TARGET: Final = "about:blank"
_THUMBNAIL: Final = re.compile(r"docProps/thumbnail\.[a-z]+")
_TO_THUMBNAIL: Final = re.compile(r"<Relationship\b[^>]*/thumbnail\"[^>]*/>")
_CALCULATION: Final = "xl/calcChain.xml"
_TO_CALCULATION: Final = re.compile(
    r"<(?:Override\b[^<>]*\sPartName=\"/xl/calcChain\.xml\"|Relationship\b[^<>]*/calcChain\")[^<>]*/>"
)
_SHEET_NAME: Final = re.compile(r"<sheet\b[^<>]*?\sname=\"([^\"]*)\"")
_TIMES: Final = re.compile(r"(<dcterms:(?:created|modified)\b[^>]*>)[^<]*")
_NO_TIME: Final = "1970-01-01T00:00:00Z"
# Markup that no Office program writes, and that could hide a text from the patterns here.
_HIDING: Final = ("<!", "<?xml-")
# Types that markup holds legitimately: schema names, and times, which are replaced where known.
_OF_MARKS: Final = frozenset({"URL", "DATE_TIME"})
_LABELS: Final = {"creator": "author name", "lastModifiedBy": "author name", "Manager": "manager name"}

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


def sweep_office(sweep: Sweep, source: Path, target: Path, bounds: ArchiveBounds) -> None:
    """Writes a copy of a document or workbook with its texts, cells and properties swept.

    Raises:
        WithheldError: the file is broken or over the bounds, or has content that cannot be swept.
    """
    with parser_failures_withheld("office"):
        check_directory(source)
        with zipfile.ZipFile(source) as archive:
            parts = _parts(archive, bounds)
        sheets = [html.unescape(name) for name in _SHEET_NAME.findall(parts.get("xl/workbook.xml", ""))]
        if sweep.redacts and sweep.with_empty_counts().cells(sheets, [""] * len(sheets)):
            # Formulas refer to sheet names, and a replacement is no legal name.
            raise WithheldError("office", "embedded")
        if any(_SHEETS.fullmatch(name) for name in parts):
            parts |= sweep_workbook(sweep, {name: text for name, text in parts.items() if _SHEETS.fullmatch(name)})
        if parts.pop(_CALCULATION, None) is not None:
            # Left out: it names cells whose formulas may be removed, and programs rebuild it.
            for name in ("[Content_Types].xml", "xl/_rels/workbook.xml.rels"):
                parts[name] = _TO_CALCULATION.sub("", parts.get(name, ""))
        _sweep_links(sweep, parts)
        for name, text in parts.items():
            if _TEXTS.fullmatch(name):
                parts[name] = sweep_word_part(sweep, text)
            elif _PROPERTIES.fullmatch(name):
                parts[name] = _properties(sweep, text)
            elif name == "_rels/.rels":
                parts[name] = _TO_THUMBNAIL.sub("", text)
        if sweep.redacts:
            for name, text in parts.items():
                _check_marks(sweep, name, text)
            _check_tables(parts)
            with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as copy:
                for name, text in parts.items():
                    copy.writestr(name, text.encode())


def _parts(archive: zipfile.ZipFile, bounds: ArchiveBounds) -> dict[str, str]:
    """Returns the text of every part except the thumbnail, in the order of the archive."""
    parts: dict[str, str] = {}
    left = min(_LARGEST, bounds.expanded_bytes)
    for member in archive.infolist():
        name = member.filename
        bounds.members -= 1
        if bounds.members < 0:
            raise WithheldError("office", "too_many_members")
        if member.is_dir() or _THUMBNAIL.fullmatch(name):
            continue
        if name in parts or not any(kind.fullmatch(name) for kind in (_TEXTS, _PROPERTIES, _SHEETS, _MARKS)):
            raise WithheldError("office", "embedded")
        with archive.open(member) as content:
            # Sizes stated in an archive may be false.
            raw = content.read(left + 1)
        left -= len(raw)
        bounds.expanded_bytes -= len(raw)
        if left < 0:
            raise WithheldError("office", "too_large")
        text = raw.decode("utf-8-sig")
        if any(mark in text for mark in _HIDING):
            raise WithheldError("office", "embedded")
        parts[name] = text
    return parts


def _sweep_links(sweep: Sweep, parts: dict[str, str]) -> None:
    """Empties external targets that hold a value, and removes shown attributes of links that hold one."""

    def emptied(found: re.Match[str]) -> str:
        if not _counted(sweep, found[1]):
            return found[0]
        low, high = (place - found.start() for place in found.span(1))
        return found[0][:low] + _NO_TARGET + found[0][high:]

    def shown(found: re.Match[str]) -> str:
        return _SHOWN.sub(lambda text: "" if _counted(sweep, text[1]) else text[0], found[0])

    for name, text in parts.items():
        if _RELATIONS.fullmatch(name):
            parts[name] = _EXTERNAL.sub(emptied, text)
        elif _TEXTS.fullmatch(name) or _SHEETS.fullmatch(name):
            parts[name] = _LINK.sub(shown, text)


def _counted(sweep: Sweep, raw: str) -> bool:
    """Counts the values in an attribute; returns whether it holds any."""
    found = sweep.matches(html.unescape(raw))
    sweep.counts.categories.update([match.entity for match in found])
    return bool(found)


def _properties(sweep: Sweep, text: str) -> str:
    def cells(texts: list[str], labels: list[str]) -> dict[int, str]:
        # The label's first word is the element, the second its parent.
        known = [_LABELS.get(label.partition(" ")[0], label) for label in labels]
        return sweep.cells([text if text != _NO_TIME else "" for text in texts], known)

    return "".join(sweep_xml([_TIMES.sub(rf"\g<1>{_NO_TIME}", text)], cells))


def _check_marks(sweep: Sweep, name: str, text: str) -> None:
    """Withholds a file with values where texts are not swept: in attributes, styles, relations and part names."""
    found: list[str] = [name]

    def note(cells: list[str], _: list[str]) -> dict[int, str]:
        found.extend(cells)
        return {}

    for _ in sweep_xml([text], note):
        pass
    if any(match.entity not in _OF_MARKS for match in sweep.matches(_BETWEEN.join(found))):
        raise WithheldError("office", "embedded")
    if _RELATIONS.fullmatch(name) and sweep.matches(" ".join(_ANY_TARGET.findall(text))):
        raise WithheldError("office", "embedded")


def _check_tables(parts: dict[str, str]) -> None:
    """Withholds a file whose tables' column names differ from their cells, because it would be invalid."""
    names = {
        _ENCODED_LINE_BREAK.sub(lambda found: chr(int(found[1], 16)), html.unescape(name))
        for part, text in parts.items()
        if _TABLE.fullmatch(part) and 'headerRowCount="0"' not in text
        for name in _TABLE_COLUMN.findall(text)
    }
    if names and not names <= cell_texts({name: text for name, text in parts.items() if _SHEETS.fullmatch(name)}):
        raise WithheldError("office", "embedded")


def sweep_word_part(sweep: Sweep, part: str) -> str:
    """Returns a part of a document with its text and the names of its authors swept.

    A value that spans several runs is replaced in the first run, and removed from the others.

    Raises:
        WithheldError: the part has text outside of runs.
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
        # A tab is read as a blank, so that a label and its value share a line: "Name:", and the name.
        return " "
    return "\n" if piece["line"] is not None else "\t" if piece["gap"] is not None else ""


def _labelled_cells(pieces: list[re.Match[str]], texts: list[str]) -> list[tuple[int, str, str]]:
    """Returns the labelled cells of tables: start in the joined texts, text, and label from row or column."""
    tables: list[TableLabels] = []
    cells: list[tuple[int, str, str]] = []
    # Starts of open cells, as indices of texts.
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
