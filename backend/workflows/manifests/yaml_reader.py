"""Parser of YAML to a tree of plain values with their lines.

It accepts values that JSON can express: no tags, no objects, and plain scalars by the core schema of YAML 1.2, so that
`no` and `off` are text. Aliases are resolved, and count towards the bounds of the tree.
"""

import re
import string
from collections.abc import Callable, Iterator
from typing import Any, Final, NoReturn

import yaml

from backend.workflows.manifests.nodes import Node, Problem, member

_MOST_NODES: Final = 100_000
_DEEPEST: Final = 64
_LARGEST_INTEGER: Final = 2**63 - 1
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_NOTICED_LATER: Final = frozenset({"while scanning a simple key", "while scanning a quoted scalar"})
"""Contexts whose mistake, a missing colon or quote, is where the context begins."""
_OF_NAMES: Final = f"{string.ascii_letters}{string.digits}_.-"

_PLAIN_SCALARS: Final[tuple[tuple[re.Pattern[str], Callable[[str], Any]], ...]] = (
    (re.compile(r"~|null|Null|NULL|"), lambda _: None),
    (re.compile(r"true|True|TRUE"), lambda _: True),
    (re.compile(r"false|False|FALSE"), lambda _: False),
    (re.compile(r"[-+]?[0-9]{1,400}"), int),
    (re.compile(r"0x[0-9a-fA-F]{1,16}"), lambda text: int(text, 16)),
    (re.compile(r"0o[0-7]{1,21}"), lambda text: int(text, 8)),
    (re.compile(r"[-+]?(\.[0-9]{1,400}|[0-9]{1,400}(\.[0-9]{0,400})?)([eE][-+]?[0-9]{1,9})?"), float),
)


def read_documents(text: str, problems: list[Problem]) -> list[Node]:
    """Reads the documents of a file, without empty ones.

    A syntax error, or a tree beyond the bounds, is added to `problems` and ends the reading.
    """
    documents: list[Node] = []
    reader = _Reader(text, problems)
    try:
        for document in reader.documents():
            if document.value is not None:
                documents.append(document)  # noqa: PERF401 - documents before an error are returned
    except _UnreadableError as error:
        problems.append(error.problem)
    except yaml.MarkedYAMLError as error:
        what = ", ".join(part for part in (error.context, error.problem) if part)
        problems.append(Problem(_line_of_error(error, text), "document", f"must be YAML: {what}"))
    except yaml.YAMLError as error:
        line = text.count("\n", 0, getattr(error, "position", 0) or 0) + 1
        problems.append(Problem(line, "document", f"must be YAML: {getattr(error, 'reason', 'not readable')}"))
    return documents


class _UnreadableError(Exception):
    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        super().__init__(problem.reason)


def _line(mark: Any) -> int:
    return mark.line + 1 if mark else 1


def _line_of_error(error: yaml.MarkedYAMLError, text: str) -> int:
    """Returns the line to correct, which is above the one where the parser noticed that something is missing."""
    context = error.context or ""
    if context in _NOTICED_LATER:
        return _line(error.context_mark)
    if context.startswith("while parsing a flow") and error.problem_mark:
        # Behind the last entry, which a name on the next line belongs to.
        above = text[: error.problem_mark.index].rstrip(_OF_NAMES).rstrip()
        return above.count("\n") + 1
    return _line(error.problem_mark or error.context_mark)


def _stop(event: yaml.Event, field: str, reason: str) -> NoReturn:
    raise _UnreadableError(Problem(_line(event.start_mark), field or "document", reason))


class _Reader:
    def __init__(self, text: str, problems: list[Problem]) -> None:
        self._events: Iterator[yaml.Event] = yaml.parse(text, Loader=_LOADER)
        self._problems = problems
        self._anchors: dict[str, Node] = {}

    def documents(self) -> Iterator[Node]:
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                self._anchors = {}
                yield self._node(next(self._events), "", 0)

    def _node(self, event: yaml.Event, field: str, depth: int) -> Node:
        if depth > _DEEPEST:
            _stop(event, field, f"must not be nested more than {_DEEPEST} deep")
        if isinstance(event, yaml.AliasEvent):
            known = self._anchors.get(event.anchor or "")
            if known is None:
                _stop(event, field, "must not use an alias before its anchor is complete")
            return Node(known.value, _line(event.start_mark), known.size)
        if getattr(event, "tag", None) not in {None, "!"}:
            _stop(event, field, "must not have a YAML tag")
        if isinstance(event, yaml.MappingStartEvent):
            node = self._mapping(event, field, depth)
        elif isinstance(event, yaml.SequenceStartEvent):
            node = self._sequence(event, field, depth)
        else:
            assert isinstance(event, yaml.ScalarEvent)
            node = self._scalar(event, field)
        if node.size > _MOST_NODES:
            _stop(event, field, f"must not hold more than {_MOST_NODES:,} values")
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        return node

    def _mapping(self, start: yaml.Event, field: str, depth: int) -> Node:
        entries: dict[str, Node] = {}
        size = 1
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                _stop(event, field, "must have text as the name of each field")
            name = event.value
            inner = member(field, name)
            line = _line(event.start_mark)
            if "\0" in name:
                _stop(event, field, "must not contain U+0000")
            if name in entries:
                self._problems.append(Problem(line, inner, "must not be given twice"))
            node = self._node(next(self._events), inner, depth + 1)
            size = self._grown(start, field, size + node.size)
            entries.setdefault(name, node)
        return Node(entries, _line(start.start_mark), size)

    def _sequence(self, start: yaml.Event, field: str, depth: int) -> Node:
        items: list[Node] = []
        size = 1
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            node = self._node(event, f"{field}[{len(items)}]", depth + 1)
            size = self._grown(start, field, size + node.size)
            items.append(node)
        return Node(items, _line(start.start_mark), size)

    @staticmethod
    def _grown(start: yaml.Event, field: str, size: int) -> int:
        if size > _MOST_NODES:
            _stop(start, field, f"must not hold more than {_MOST_NODES:,} values")
        return size

    def _scalar(self, event: yaml.ScalarEvent, field: str) -> Node:
        line = _line(event.start_mark)
        value: Any = event.value
        if event.style is None or event.style == "":
            value = plain_scalar(event.value)
        if isinstance(value, str) and "\0" in value:
            self._problems.append(Problem(line, field or "document", "must not contain U+0000"))
        if _out_of_range(value):
            self._problems.append(Problem(line, field or "document", "must be a number of at most 64 bits"))
            value = 0
        return Node(value, line, literal=event.style == "|")


def plain_scalar(text: str) -> Any:
    """Returns what a scalar without quotes stands for."""
    if len(text) > 1000:
        return text
    for pattern, make in _PLAIN_SCALARS:
        if pattern.fullmatch(text):
            return make(text)
    return text


def _out_of_range(value: Any) -> bool:
    if isinstance(value, float):
        return value in {float("inf"), float("-inf")}
    return isinstance(value, int) and abs(value) > _LARGEST_INTEGER
