"""Labels of the texts of XML and HTML: the elements around them, and the heads of columns and rows of tables."""

from typing import Final

from redaction.formats.nested_labels import is_known_label, label_score, may_be_labelled, nested_label, stated_label
from redaction.rules.labels import PRIVATE_MEMBER
from redaction.search.key_members import KEY_ELEMENTS, PRIVATE_ELEMENTS

# Deeper elements are not tracked.
_DEEPEST: Final = 1_000
# Longer texts are no names of columns.
_LONGEST: Final = 100
_MOST_COLUMNS: Final = 1_000
# Elements of property lists that hold the value of the key before them.
_OF_KEYS: Final = frozenset({"string", "integer", "real", "date"})


class OpenElements:
    """Tracker of open elements, which give the label of a text."""

    def __init__(self) -> None:
        self._names: list[str] = []
        # Labels that the attributes of each open element state.
        self._stated: list[str] = []
        # The last key of a property list, and the number of open elements around it.
        self._key = ""
        self._key_depth = 0
        self._tables: list[TableLabels] = []
        # The last term of a list of descriptions.
        self._term = ""

    def open(self, name: str, stated: str = "") -> None:
        """Notes the beginning of an element; `stated` is the label in its attributes, if any."""
        if len(self._names) >= _DEEPEST:
            return
        self._names.append(name)
        self._stated.append(stated)
        lower = name.lower()
        if lower in {"dl", "dt"}:
            self._term = ""
        if lower == "table":
            self._tables.append(TableLabels())
        elif self._tables:
            self._tables[-1].open(lower)

    def close(self, name: str) -> None:
        """Notes the end of an element, and of unclosed elements inside it."""
        if name not in self._names:
            return
        place = len(self._names) - 1 - self._names[::-1].index(name)
        tables = sum(one.lower() == "table" for one in self._names[place:])
        del self._names[place:]
        del self._stated[place:]
        if place < self._key_depth:
            self._key = ""
        del self._tables[len(self._tables) - tables :]
        if self._tables:
            self._tables[-1].close(name.lower())

    def label(self, text: str) -> str:
        """Returns the label of a text: its cell's head, its term in a list, or the elements around it."""
        names = self._names
        if not names:
            return ""
        if self._tables and (head := self._tables[-1].head(text)):
            return head
        inside = names[-1].lower()
        if inside == "dt" and len(text) <= _LONGEST:
            self._term = " ".join(text.split())
        elif inside == "dd" and self._term:
            return self._term
        elif inside == "key" and not text.isspace():
            self._key, self._key_depth = text.strip() if is_known_label(text.strip()) else "", len(names) - 1
        parent = names[-2] if len(names) > 1 else ""
        if names[-1] in PRIVATE_ELEMENTS and parent.lower() in KEY_ELEMENTS:
            return PRIVATE_MEMBER
        if parent and label_score(self._stated[-2]):
            parent = self._stated[-2]
        label = nested_label(parent, names[-1])
        stated = self._stated[-1]
        if self._key and (inside in _OF_KEYS or may_be_labelled(names[-1])):
            stated = stated or self._key
        return stated_label(parent, stated, label) if stated else label


class TableLabels:
    """Labels of a table: its first row may name columns, and the first cell of a row the other cells."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._named = False
        self._column = -1
        self._in_cell = self._is_head = False
        self._row_head = ""

    def open(self, name: str) -> None:
        """Notes the beginning of an inner element, named in small letters."""
        if name == "tr":
            self._end_row()
        elif name in {"td", "th"}:
            self._column += 1
            self._in_cell = True
            self._is_head = name == "th"
            if name == "th":
                self._row_head = ""
            if not self._named and len(self._names) < _MOST_COLUMNS:
                self._names.append("")

    def close(self, name: str) -> None:
        """Notes the end of an inner element."""
        if name == "tr":
            self._end_row()
        elif name in {"td", "th"}:
            self._in_cell = False

    def head(self, text: str) -> str:
        """Returns the label of a text in the open cell, from column or row, whichever is more specific; or ""."""
        if not self._in_cell or not text or text.isspace():
            return ""
        column, row_head = self._column, self._row_head
        written = " ".join(text.split()) if len(text) <= _LONGEST else ""
        if not row_head:
            self._row_head = written
        if not self._named and column < len(self._names):
            self._names[column] = f"{self._names[column]} {written}".strip()[:_LONGEST]
        if label_score(written):
            # The text is itself a label of a column or row.
            return ""
        name = self._names[column] if self._named and column < len(self._names) else ""
        # Cells of the first row are heads, except the second cell of a table of two columns.
        in_row = not self._is_head and (column == 1 or (self._named and column > 1))
        return max(name, row_head if in_row else "", key=label_score)

    def _end_row(self) -> None:
        if any(self._names):
            self._named = True
        elif not self._named:
            self._names = []
        self._column = -1
        self._in_cell = False
        self._row_head = ""
