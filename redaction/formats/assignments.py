"""Finds the values of lines `key = value` in TOML, INI, properties and environment files."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Final

from redaction.formats.labelled_text import Labelled, as_text
from redaction.formats.nested_labels import nested_label

_STRING: Final = r""""(?:[^"\\\r\n]|\\.)*+"|'[^'\r\n]*+'"""
_KEY: Final = rf"""(?:[\w$.-]|{_STRING})(?:[\w$. \t-]|{_STRING}){{0,80}}?"""
_LINE: Final = re.compile(
    rf"^[ \t]*(?:\[{{1,2}}(?P<section>[^\]\r\n]{{1,200}})\]|(?:export[ \t]+|set[ \t]+)?(?P<key>{_KEY})[ \t]*[=:]"
    r"""[ \t]*(?P<value>(?P<quote>["'])-{4,5} ?BEGIN [^"']{1,20000}(?P=quote)|[^ \t\r\n][^\r\n]*))""",
    re.MULTILINE,
)
_WHOLE: Final = re.compile(rf"({_STRING})[ \t]*+,?[ \t]*+(?:(?:[#;]|//).*)?")
_PLAIN: Final = re.compile(r"[^#;]*(?:(?<![ \t])[#;][^#;]*)*")
# Values in one-line lists and tables, with their keys if any; also the rest behind an unclosed string.
_INNER: Final = re.compile(
    rf"""(?:((?<![\w-])[\w-]++|{_STRING})[ \t]*+=[ \t]*+)?"""
    rf"""(?:({_STRING}|(?<![\w.+-])[+-]?[0-9][0-9.:TZ+-]{{4,}}+(?<![.:+-])(?!\w))|"[^\r\n]*+)"""
)
# Brackets of TOML's lists and tables, and strings and comments, also unclosed, which may hold brackets.
_BRACKET: Final = re.compile(
    r'"{3}(?:[^"\\]|\\[\s\S]|"(?!""))*+(?:"{3}|\Z)'
    r"|'{3}(?:[^']|'(?!''))*+(?:'{3}|\Z)"
    rf"""|{_STRING}|["'][^\r\n]*+|#[^\r\n]*+|[\[\]{{}}]"""
)
# A line without the blanks around it and a comment's mark.
_WRITTEN: Final = re.compile(r"[^\W_][^\r\n]*(?<![ \t])")
_ESCAPED: Final = re.compile(r"\\u([0-9A-Fa-f]{4})")


class Assignments:
    """Finder of the values of one file; a value's label is its key, with the enclosing key or section."""

    def __init__(self, *, quotes: bool) -> None:
        # True for formats with quoted strings.
        self._quotes = quotes
        self._section = ""
        # An open list of TOML that continues in the next lines: the number of open brackets, and its label.
        self._depth = 0
        self._label = ""

    def __call__(self, text: str) -> Iterator[Labelled]:
        """Yields the values in some lines; other text, such as comments, is yielded without a label."""
        place = 0
        if self._depth:
            place = self._list_end(text, 0)
            yield from self._inner(text[:place], 0, self._label)
        while (line := _LINE.search(text, place)) is not None:
            yield from _lines(text, place, line.start())
            place = line.end()
            if (section := line["section"]) is not None:
                self._section = _last(section)
                continue
            label = nested_label(_last(_parent(line["key"])) or self._section, _last(line["key"]))
            value, start = line["value"], line.start("value")
            if self._quotes and value[0] in "{[":
                self._label = label
                place = self._list_end(text, start)
                yield from self._inner(text[start:place], start, label)
            else:
                yield from self._values(value, start, label)
        yield from _lines(text, place, len(text))

    def _values(self, value: str, start: int, label: str) -> Iterator[Labelled]:
        if (string := _WHOLE.fullmatch(value)) is not None:
            yield self._string(string[1], start, label)
            yield from _lines(value, string.end(1), len(value), start)
        elif value[0] in "{[" and '"' in value:
            yield from self._inner(value, start, label)
        elif value[0] in "\"'" and "\n" in value:
            # A key in quotes.
            yield Labelled(start + 1, start + len(value) - 1, value[1:-1], label)
        elif value[:3] in {'"""', "'''"}:
            begun = value[3:].partition(value[:3])[0]
            yield from _lines(begun, 0, len(begun), start + 3)
        else:
            plain = _PLAIN.match(value)
            assert plain is not None, "it matches nothing too"
            bare = plain[0].rstrip()
            if bare:
                written = _quoted if self._quotes else _writer(bare)
                yield Labelled(start, start + len(bare), _unescaped(bare), label, written)
            yield from _lines(value, len(bare), len(value), start)

    def _inner(self, value: str, start: int, label: str) -> Iterator[Labelled]:
        """Yields the values of a list or table that begins at `start`."""
        for inner in _INNER.finditer(value):
            if inner[2] is not None:
                own = nested_label(label, _last(inner[1])) if inner[1] else label
                yield self._string(inner[2], start + inner.start(2), own)

    def _list_end(self, text: str, start: int) -> int:
        """Returns the end of the list or table that is open, or begins, at `start`."""
        for token in _BRACKET.finditer(text, start):
            if token[0] in {"[", "{"}:
                self._depth += 1
            elif token[0] in {"]", "}"}:
                self._depth -= 1
                if self._depth == 0:
                    return token.end()
        return len(text)

    def _string(self, raw: str, start: int, label: str) -> Labelled:
        if raw[0] not in "\"'":
            return Labelled(start, start + len(raw), raw, label, _quoted)
        if raw[0] == '"' and "\\" in raw:
            try:
                return Labelled(start, start + len(raw), str(json.loads(raw)), label, json.dumps)
            except ValueError:
                pass
        inner = raw[1:-1]
        return Labelled(start + 1, start + len(raw) - 1, _unescaped(inner), label, _writer(inner))


def _lines(text: str, low: int, high: int, start: int = 0) -> Iterator[Labelled]:
    """Yields the lines with letters between two places of a text that begins at `start`."""
    for found in _WRITTEN.finditer(text, low, high):
        yield Labelled(start + found.start(), start + found.end(), found[0])


def _quoted(new: str) -> str:
    return json.dumps(new, ensure_ascii=False)


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text) if "\\u" in text else text


def _writer(raw: str) -> Callable[[str], str]:
    # The file's encoding may lack the character of an escape.
    return _escaped if "\\u" in raw else as_text


def _escaped(new: str) -> str:
    return json.dumps(new)[1:-1].replace('\\"', '"')


def _last(key: str) -> str:
    return key.strip().rpartition(".")[2].strip(" \t\"'[]")


def _parent(key: str) -> str:
    return key.rpartition(".")[0]
