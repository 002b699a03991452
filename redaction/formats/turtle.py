"""Sweeps Turtle, TriG, N-Triples and N-Quads: literals, IRIs, numbers and comments, keeping valid syntax.

The local name of a predicate is the label of its objects. Predicates, types, datatypes and prefixes stay unchanged.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from redaction.formats.content_lines import encode_uri
from redaction.formats.labelled_text import Labelled, add_counts, with_values_swept

if TYPE_CHECKING:
    from redaction.sweep import Sweep

_STRING: Final = (
    r'"""(?:[^"\\]|\\[\s\S]|"(?!""))*+"""'
    r"|'''(?:[^'\\]|\\[\s\S]|'(?!''))*+'''"
    r'|"(?:[^"\\\r\n]|\\.)*+"'
    r"|'(?:[^'\\\r\n]|\\.)*+'"
)
_TOKEN: Final = re.compile(
    rf"(?P<iri><[^\x00-\x20<>\"{{}}|^`]*+>)|(?P<string>{_STRING})|(?P<comment>\#[^\r\n]*)"
    r"|(?P<at>@[A-Za-z]+(?:-{1,2}[A-Za-z0-9]+)*)|(?P<datatype>\^\^)"
    r"|(?P<number>(?<![\w.:-])[+-]?(?:[0-9]++(?:\.[0-9]++)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?(?![\w:-]))"
    r"|(?P<name>[\w.-]*+:(?:[\w:%-]|\\.|\.(?=[\w:%\\.-]))*+)|(?P<word>\w[\w-]*+)|(?P<mark>[.;,\[\](){}])"
)
_WORDS: Final = frozenset({"a", "true", "false", "prefix", "base", "graph", "version"})
_DIRECTIVES: Final = frozenset({"@prefix", "@base", "prefix", "base"})
_TYPES: Final = frozenset({"a", "rdf:type", "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"})
_ESCAPE: Final = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([\s\S]))")
_CONTROLS: Final = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f"}
_WRITTEN: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "'": "\\'", "\n": "\\n", "\r": "\\r"})
_PLACEHOLDER: Final = re.compile(r"\[([A-Z_]+)\]")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_ILLEGAL: Final = re.compile(r"[\x00-\x20<>\"{}|^`\\\[\]]")
_LOCAL: Final = re.compile(r"[^/#:<>]*(?=>?\Z)")
_MAY_HOLD_ADDRESS: Final = re.compile(r"@|%40|\\[uU]0")
_LAST_CODE: Final = 0x10FFFF
_DEEPEST: Final = 1_000
_SUBJECT, _PREDICATE, _OBJECT = range(3)
_NEXT: Final = {".": _SUBJECT, "{": _SUBJECT, "}": _SUBJECT, ";": _PREDICATE, ",": _OBJECT}


class NotTurtleError(ValueError):
    """Raised for a text that is no Turtle."""


def sweep_turtle(blocks: Iterable[str], sweep: "Sweep") -> Iterator[str]:
    """Yields the swept text block by block.

    Raises:
        NotTurtleError: at the first words that Turtle does not have.
    """
    values = sweep.part(redacts=True)
    yield from with_values_swept(blocks, values, _Terms(), (".\n", "\n"))
    add_counts(sweep, values)


class _Terms:
    """Finder of the terms of one file; tracks the open statement."""

    def __init__(self) -> None:
        self._position = _SUBJECT
        self._label = ""
        self._of_type = False
        self._is_name = False
        self._around: list[tuple[int, str, bool]] = []

    def __call__(self, text: str) -> Iterator[Labelled]:
        place = 0
        for token in _TOKEN.finditer(text):
            if any(map(str.isalnum, text[place : token.start()])):
                raise NotTurtleError
            place = token.end()
            kind, raw = token.lastgroup, token[0]
            if kind == "comment":
                yield Labelled(token.start(), place, raw, "", _encode_comment)
            elif kind == "mark":
                self._mark(raw)
            elif kind == "datatype" or (kind in {"at", "word"} and raw.lower() in _DIRECTIVES):
                self._is_name = True
                self._position = self._position if kind == "datatype" else _SUBJECT
            elif kind == "word" and raw.lower() not in _WORDS:
                raise NotTurtleError
            elif kind != "at" and (one := self._term(token.start(), kind or "", raw)) is not None:
                yield one
        if any(map(str.isalnum, text[place:])):
            raise NotTurtleError

    def _mark(self, mark: str) -> None:
        if mark in "[(":
            position = self._position
            if len(self._around) < _DEEPEST:
                self._around.append((max(position, _PREDICATE), self._label, self._of_type))
            self._position = _PREDICATE if mark == "[" else _OBJECT
        elif mark in "])":
            if self._around:
                self._position, self._label, self._of_type = self._around.pop()
        else:
            self._position = _NEXT[mark]

    def _term(self, start: int, kind: str, raw: str) -> Labelled | None:
        """Returns the term at `start` as a value; None for a name."""
        end = start + len(raw)
        position, is_name = self._position, self._is_name
        if is_name:
            # A prefix precedes its IRI.
            self._is_name = raw[-1] == ":"
        elif position == _PREDICATE:
            self._label = "" if (found := _LOCAL.search(raw)) is None else found[0].rstrip(">")
            self._of_type = raw in _TYPES
        self._position = position if is_name else min(position + 1, _OBJECT)
        label = self._label if position == _OBJECT else ""
        if kind == "string":
            quotes = 3 if raw[:3] in {'"""', "'''"} and len(raw) > 3 else 1
            return Labelled(start + quotes, end - quotes, _read(raw[quotes:-quotes]), label, _encode_string)
        if kind == "number":
            return Labelled(start, end, raw, label, _encode_as_string)
        named = is_name or position == _PREDICATE or (self._of_type and position == _OBJECT)
        if named and _MAY_HOLD_ADDRESS.search(raw) is None:
            return None
        if kind == "iri":
            return Labelled(start, end, text := _read(raw[1:-1]), "" if named else label, _iri_writer(text))
        return Labelled(start, end, _read(raw), "", _encode_name) if kind == "name" else None


def _read(raw: str) -> str:
    return _ESCAPE.sub(_character, raw) if "\\" in raw else raw


def _character(found: re.Match[str]) -> str:
    four, eight, one = found.groups()
    if one is not None:
        return _CONTROLS.get(one, one)
    code = int(four or eight, 16)
    return chr(code) if code <= _LAST_CODE and not 0xD800 <= code <= 0xDFFF else found[0]


def _encode_comment(new: str) -> str:
    return " ".join(new.splitlines())


def _encode_string(new: str) -> str:
    return new.translate(_WRITTEN)


def _encode_as_string(new: str) -> str:
    return f'"{_encode_string(new)}"'


def _iri_writer(text: str) -> Callable[[str], str]:
    absolute = _SCHEME.match(text) is not None

    def written(new: str) -> str:
        iri = _PLACEHOLDER.sub(r"\1", encode_uri(new))
        if absolute and _SCHEME.match(iri) is None:
            iri = f"urn:redacted:{iri}"
        return f"<{_ILLEGAL.sub(lambda found: f'%{ord(found[0]):02X}', iri)}>"

    return written


def _encode_name(new: str) -> str:
    """Returns a swept prefixed name, or an IRI in place of a name that is a value."""
    written = "-".join(_PLACEHOLDER.findall(new))
    return f"<urn:redacted:{written}>"
