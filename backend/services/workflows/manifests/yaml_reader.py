"""Parses YAML to a tree of plain values with their lines (`DocumentNode`), and reports problems.

It accepts values that JSON can express: no tags, no objects, and plain scalars by the core schema of YAML 1.2, so that
`no` and `off` are text. Aliases are resolved, and count towards the bounds of the tree.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, NoReturn

import yaml

from backend.services.workflows.manifests.nodes import DocumentNode, Problem, Scalar, member
from backend.services.workflows.manifests.yaml_mistakes import (
    ParsedPart,
    documents_of,
    lines_of,
    mistake_of,
    mistakes_of,
)

_MOST_NODES: Final = 100_000
_MOST_UNREADABLE: Final = 100
"""Invalid documents of a file with mistakes, after which reading stops."""
_DEEPEST: Final = 64
_LARGEST_INTEGER: Final = 2**63 - 1
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_VARIABLE: Final = "${vars."

_ANCHOR: Final = re.compile(r"&([0-9A-Za-z_-]+)")
_PLAIN_SCALARS: Final[tuple[tuple[re.Pattern[str], Callable[[str], Scalar | None]], ...]] = (
    (re.compile(r"~|null|Null|NULL|"), lambda _: None),
    (re.compile(r"true|True|TRUE"), lambda _: True),
    (re.compile(r"false|False|FALSE"), lambda _: False),
    (re.compile(r"[-+]?[0-9]{1,400}"), int),
    (re.compile(r"0x[0-9a-fA-F]{1,16}"), lambda text: int(text, 16)),
    (re.compile(r"0o[0-7]{1,21}"), lambda text: int(text, 8)),
    (re.compile(r"[-+]?(\.[0-9]{1,400}|[0-9]{1,400}(\.[0-9]{0,400})?)([eE][-+]?[0-9]{1,9})?"), float),
)


class ReadFile(NamedTuple):
    """The readable, non-empty documents of a file, and whether these are all documents."""

    documents: list[DocumentNode]
    complete: bool


def read_documents(text: str, problems: list[Problem]) -> list[DocumentNode]:
    """Returns the documents of a file, read as by `read_file`."""
    return read_file(text, problems).documents


def read_file(text: str, problems: list[Problem]) -> ReadFile:
    """Reads the documents of a file; adds problems of unreadable ones, up to ten syntax mistakes for each document."""
    found: list[Problem] = []
    try:
        whole = _YamlReader(text, found).file()
    except (_UnreadableError, yaml.YAMLError):
        # A parser ends at its first mistake, so each document is read by itself.
        whole = None
    if whole is not None:
        problems += found
        return whole
    documents: list[DocumentNode] = []
    lines = lines_of(text)
    unreadable = 0
    for start, end in documents_of(lines):
        known = len(problems)
        documents += _read_part(lines, start, end, problems)
        unreadable += len(problems) > known
        if unreadable == _MOST_UNREADABLE:
            break
    return ReadFile(documents, complete=False)


def _read_part(lines: Sequence[str], start: int, end: int, problems: list[Problem]) -> list[DocumentNode]:
    text = "".join(lines[start:end])
    try:
        return _YamlReader(text, problems, start).file().documents
    except _UnreadableError as error:
        problems.append(error.problem)
    except yaml.YAMLError:
        # Aliases in a part may refer to anchors in other parts.
        anchors = frozenset(_ANCHOR.findall(text))
        found = mistakes_of(lines, start, end, lambda part: _parse_part(part, anchors))
        problems += (Problem(each.line + 1, "document", each.what) for each in found)
    return []


def _parse_part(lines: Sequence[str], anchors: frozenset[str]) -> ParsedPart:
    reader = _YamlReader("".join(lines), [], anchors=anchors)
    first = None
    try:
        reader.file()
    except _UnreadableError:
        pass
    except yaml.YAMLError as error:
        first = mistake_of(error, lines, reader.last, reader.outermost_flow)
    return ParsedPart(reader.refused, first)


class _UnreadableError(Exception):
    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        super().__init__(problem.reason)


class _YamlReader:
    """Reader of a text, or of a part of a file that begins after `above` lines.

    `anchors` are names of further known anchors. `last` is the last event that was read, `outermost_flow` the line,
    from 0, of the outermost open brackets. `refused` has line and reason of content that makes the document unusable.
    """

    def __init__(
        self, text: str, problems: list[Problem], above: int = 0, *, anchors: frozenset[str] = frozenset()
    ) -> None:
        self._events = self._read(text)
        # The parser counts from behind a byte order mark.
        self._text = text.removeprefix("\ufeff")
        self._problems = problems
        self._above = above
        self._anchors: dict[str, DocumentNode] = {}
        self._unknown: set[str] = set()
        self._known_elsewhere = anchors
        self._open: list[yaml.Event] = []
        self.last: yaml.Event | None = None
        self.refused: list[tuple[int, str]] = []

    @property
    def outermost_flow(self) -> int | None:
        return next((self._line(event) - 1 for event in self._open if getattr(event, "flow_style", False)), None)

    def file(self) -> ReadFile:
        documents: list[DocumentNode] = []
        complete = True
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                self._anchors = {}
                self._unknown = set()
                self.refused.clear()
                document = self._node(next(self._events), "", 0)
                complete = complete and not self.refused
                if not self.refused and document.value is not None:
                    documents.append(document)
        return ReadFile(documents, complete)

    def _read(self, text: str) -> Iterator[yaml.Event]:
        for event in yaml.parse(text, Loader=_LOADER):
            self.last = event
            if isinstance(event, yaml.CollectionStartEvent):
                self._open.append(event)
            elif isinstance(event, yaml.CollectionEndEvent):
                self._open.pop()
            yield event

    def _line(self, event: yaml.Event) -> int:
        return int(event.start_mark.line) + 1 + self._above if event.start_mark else 1

    def _column(self, event: yaml.Event) -> int:
        return int(event.start_mark.column) + 1 if event.start_mark else 1

    def _written(self, event: yaml.ScalarEvent) -> str:
        if not event.start_mark or not event.end_mark:
            return ""
        return self._text[event.start_mark.index : event.end_mark.index]

    def _stop(self, event: yaml.Event, field: str, reason: str) -> NoReturn:
        raise _UnreadableError(Problem(self._line(event), field or "document", reason))

    def _refuse(self, event: yaml.Event, field: str, reason: str) -> None:
        """Adds a problem that makes the document unusable; its rest is read for further problems."""
        self._problems.append(Problem(self._line(event), field or "document", reason))
        self.refused.append((self._line(event) - 1, reason))

    def _node(self, event: yaml.Event, field: str, depth: int) -> DocumentNode:
        if depth > _DEEPEST:
            self._stop(event, field, f"must not be nested more than {_DEEPEST} deep")
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, field)
        if getattr(event, "tag", None) not in {None, "!"}:
            self._refuse(event, field, "must not have a YAML tag")
        if isinstance(event, yaml.MappingStartEvent):
            node = self._mapping(event, field, depth)
        elif isinstance(event, yaml.SequenceStartEvent):
            node = self._sequence(event, field, depth)
        else:
            assert isinstance(event, yaml.ScalarEvent)
            node = self._scalar(event, field)
        if node.size > _MOST_NODES:
            self._stop(event, field, f"must not hold more than {_MOST_NODES:,} values")
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        return node

    def _alias(self, event: yaml.AliasEvent, field: str) -> DocumentNode:
        name = event.anchor or ""
        known = self._anchors.get(name)
        if known is not None:
            return DocumentNode(known.value, self._line(event), known.size, column=self._column(event))
        if name not in self._unknown | self._known_elsewhere:
            # Reported once, however often the missing anchor is used.
            self._unknown.add(name)
            self._refuse(event, field, "must not use an alias before its anchor is complete")
        return DocumentNode(None, self._line(event))

    def _mapping(self, start: yaml.Event, field: str, depth: int) -> DocumentNode:
        entries: dict[str, DocumentNode] = {}
        size = 1
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                self._stop(event, field, "must have text as the name of each field")
            name = event.value
            inner = member(field, name)
            line = self._line(event)
            if "\0" in name:
                self._stop(event, field, "must not contain U+0000")
            if name in entries:
                self._problems.append(Problem(line, inner, "must not be given twice"))
            node = self._node(next(self._events), inner, depth + 1)
            size = self._check_size(start, field, size + node.size)
            entries.setdefault(name, node)
        return DocumentNode(entries, self._line(start), size)

    def _sequence(self, start: yaml.Event, field: str, depth: int) -> DocumentNode:
        items: list[DocumentNode] = []
        size = 1
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            node = self._node(event, f"{field}[{len(items)}]", depth + 1)
            size = self._check_size(start, field, size + node.size)
            items.append(node)
        return DocumentNode(items, self._line(start), size)

    def _check_size(self, start: yaml.Event, field: str, size: int) -> int:
        if size > _MOST_NODES:
            self._stop(start, field, f"must not hold more than {_MOST_NODES:,} values")
        return size

    def _scalar(self, event: yaml.ScalarEvent, field: str) -> DocumentNode:
        line = self._line(event)
        value: object = event.value
        if event.style is None or event.style == "":
            value = plain_scalar(event.value)
        if isinstance(value, str) and "\0" in value:
            self._problems.append(Problem(line, field or "document", "must not contain U+0000"))
        if _out_of_range(value):
            self._problems.append(Problem(line, field or "document", "must be a number of at most 64 bits"))
            value = 0
        written = self._written(event) if not isinstance(value, str | None) or _VARIABLE in event.value else ""
        return DocumentNode(value, line, literal=event.style == "|", column=self._column(event), written=written)


def plain_scalar(text: str) -> Scalar | str | None:
    """Returns the value of a scalar without quotes."""
    if len(text) > 1000:
        return text
    for pattern, make in _PLAIN_SCALARS:
        if pattern.fullmatch(text):
            return make(text)
    return text


def scalar_of(text: str) -> Scalar | None:
    """Returns the number or boolean that a text without quotes stands for; None for any other text."""
    value = plain_scalar(text)
    return None if isinstance(value, str | None) or _out_of_range(value) else value


def _out_of_range(value: object) -> bool:
    if isinstance(value, float):
        return value in {float("inf"), float("-inf")}
    return isinstance(value, int) and abs(value) > _LARGEST_INTEGER
