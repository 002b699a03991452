"""Keys of JSON: replacement of keys that hold values, and labels of values from keys and heads of tables."""

import functools
import re
from dataclasses import dataclass
from typing import Final

from redaction.formats.file_names import UniqueNames
from redaction.formats.nested_labels import (
    is_known_label,
    label_score,
    may_be_label,
    may_be_labelled,
    may_state_label,
    nested_label,
    stated_label,
    states_label,
)
from redaction.rules.labels import plain_label
from redaction.search.key_members import KeyObjects

# Words with a mail address, a card, account or telephone number, or a social security number.
_EXACT: Final = re.compile(
    r"[^@\s]{1,64}@\S{1,190}\.[^@\s.]{2,30}|(?<![0-9A-Za-z])(?:[0-9](?:[ -]?[0-9]){11,18}(?![\w-])|"
    r"[A-Z]{2}[0-9]{2}[0-9A-Z ]{11,40}|[0-9]{3}-[0-9]{2}-[0-9]{4}(?![\w-])|\+[0-9][0-9 ()./-]{6,20})"
)
_REPLACEMENT: Final = re.compile(r"\[[A-Z_]+\](?:-[0-9]+)?")
# Types whose values may have other words around them in a part that `_EXACT` finds.
_AMONG_WORDS: Final = ("[EMAIL_ADDRESS]", "[IBAN_CODE]", "[PHONE_NUMBER]")

_DEEPEST_LABEL: Final = 1_000
_MOST_COLUMNS: Final = 1_000
_HEADS: Final = frozenset({"columns", "fields", "header", "headers", "column names", "cols", "keys"})
_ROWS: Final = frozenset({"rows", "data", "values", "records", "data array"})


@functools.lru_cache(maxsize=4096)
def exact_parts(key: str) -> tuple[tuple[int, int], ...]:
    """Returns the spans of a key's parts that look like a value of an exact type, such as a mail address."""
    return tuple(found.span() for found in _EXACT.finditer(key))


def holds_replacement(key: str) -> bool:
    """Returns whether a key holds the replacement of a value, such as `[EMAIL_ADDRESS]`."""
    return "[" in key and _REPLACEMENT.search(key) is not None


def is_replaced(part: str) -> bool:
    """Returns whether a swept part of a key was a value; other parts of keys are not replaced."""
    return _REPLACEMENT.fullmatch(part) is not None or any(map(part.__contains__, _AMONG_WORDS))


class ReplacedKeys:
    """Replaced keys of one document: equal keys get equal replacements, different keys different ones."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._unique = UniqueNames()

    def replaced(self, key: str, new: str) -> str:
        """Returns the unique replacement of a key; `new` is the key with its values replaced."""
        if key not in self._names:
            self._names[key] = self._unique.claim(new)
        return self._names[key]


@dataclass(slots=True)
class _Level:
    """An open object or array, its outer label, and the label of its next value."""

    parent: str = ""
    label: str = ""
    is_array: bool = False
    # The last key of an object, the label that it states for its values, and the column names of its rows.
    key: str = ""
    stated: str = ""
    columns: list[str] | None = None
    # The column names of an array's rows; None while its first row may have them.
    names: list[str] | None = None
    # In a row: the column, and whether the row may be the head.
    column: int = -1
    is_head: bool = False


class Keys:
    """Open keys at a position of JSON text, and the label that they give to values there.

    `notes` says whether the next string must be passed to `note`, and `follows_rows` whether commas count. `objects`
    tracks the open objects that may be cryptographic keys.
    """

    def __init__(self, label: str = "") -> None:
        self._above: list[_Level] = []
        self._level = _Level(label, label)
        # Number of open levels beyond the deepest one tracked.
        self._deeper = 0
        self.label = label
        self.notes = False
        self.follows_rows = False
        self.replaced = ReplacedKeys()
        self.objects: KeyObjects[int] | None = None

    @property
    def in_object(self) -> bool:
        """Returns whether an object or array is open."""
        return bool(self._above)

    def key(self, name: str) -> None:
        """Notes a key, whose value follows."""
        level = self._level
        level.key = name
        label = nested_label(level.parent, name)
        if level.stated and may_be_labelled(name):
            label = stated_label(level.parent, level.stated, label)
        self.label = level.label = label
        self.notes = may_state_label(name)

    def note(self, text: str) -> None:
        """Notes a string value that may be the label of other values."""
        level = self._level
        if level.is_head:
            _add_column(level, text if may_be_label(text) else "")
            return
        self.notes = False
        if states_label(level.key, text) and not label_score(level.stated):
            # A label is itself no value.
            level.stated, self.label = text, ""
            if self._above and self._above[-1].is_head:
                # An array of objects that describe columns.
                _add_column(self._above[-1], text)

    def punctuation(self, token: str) -> None:
        """Tracks braces and brackets of a token, and commas in rows."""
        for character in token:
            if character == "," and self.follows_rows:
                self._next_column()
            elif character in "{[":
                if len(self._above) < _DEEPEST_LABEL:
                    self._open(is_array=character == "[")
                else:
                    self._deeper += 1
            elif character in "}]":
                if self._deeper:
                    self._deeper -= 1
                else:
                    self._close()

    def _open(self, *, is_array: bool) -> None:
        above = self._level
        level = _Level(self.label, self.label, is_array)
        if is_array and above.is_array:
            level.names, level.column, level.is_head = above.names or [], 0, above.names is None
        elif is_array and (key := plain_label(above.key)) in _ROWS and above.columns:
            level.names = above.columns
        elif is_array:
            level.is_head = key in _HEADS
        self._above.append(above)
        self._enter(level)
        if level.names and level.column == 0:
            self._label_column()

    def _close(self) -> None:
        if not self._above:
            self._enter(_Level())
            return
        closed, level = self._level, self._above.pop()
        if closed.is_head:
            names = closed.columns if any(map(is_known_label, closed.columns or ())) else None
            if level.is_array:
                level.names = names or []
            else:
                level.columns = names
        self._enter(level)

    def _enter(self, level: _Level) -> None:
        self._level = level
        self.label = level.label
        self.notes = level.is_head
        self.follows_rows = level.column >= 0

    def _next_column(self) -> None:
        self._level.column += 1
        self._label_column()

    def _label_column(self) -> None:
        level = self._level
        name = level.names[level.column] if level.names and level.column < len(level.names) else ""
        self.label = level.label = nested_label(level.parent, name) if name else level.parent


def _add_column(head: _Level, name: str) -> None:
    if head.columns is None:
        head.columns = []
    if len(head.columns) < _MOST_COLUMNS:
        # Cells other than strings name no column.
        head.columns += [*[""] * (min(head.column, _MOST_COLUMNS) - len(head.columns)), name]
