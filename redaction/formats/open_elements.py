"""Labels of the texts of XML and HTML: the elements around them, and the heads of columns and rows of tables."""

from typing import Final

from redaction.formats.nested_labels import is_known_label, is_stated, label_score, nested_label, stated_label
from redaction.rules.labels import PRIVATE_MEMBER
from redaction.search.key_members import KEY_ELEMENTS, PRIVATE_ELEMENTS

# Elements below are not followed.
_DEEPEST: Final = 1_000
# Longer texts are no names of columns.
_LONGEST: Final = 100
_MOST_COLUMNS: Final = 1_000
# Elements of property lists that hold the value of the key before them.
_OF_KEYS: Final = frozenset({"string", "integer", "real", "date"})


class OpenElements:
    """The elements that are open at a place, and the label that they give to a text there."""

    def __init__(self) -> None:
        self._names: list[str] = []
        # What the attributes of each say that its value is.
        self._stated: list[str] = []
        # The last key of a property list, and how many elements are open around it.
        self._key = ""
        self._key_depth = 0
        self._tables: list[TableLabels] = []
        # The last term of a list of descriptions.
        self._term = ""

    def open(self, name: str, stated: str = "") -> None:
        """Notes the beginning of an element, of which attributes may have `stated` what its value is."""
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
        """Notes the end of an element, and of those inside."""
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
        """Returns the label of a text: the head of its cell in a table or term in a list, else the elements around."""
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
        if self._key and (inside in _OF_KEYS or is_stated(names[-1])):
            stated = stated or self._key
        return stated_label(parent, stated, label) if stated else label


class TableLabels:
    """A table: the texts of its first row may name its columns, and the first cell of a row those behind it."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._named = False
        self._column = -1
        self._in_cell = self._is_head = False
        self._row_head = ""

    def open(self, name: str) -> None:
        """Notes the beginning of an element inside, in small letters."""
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
        """Notes the end of an element inside."""
        if name == "tr":
            self._end_row()
        elif name in {"td", "th"}:
            self._in_cell = False

    def head(self, text: str) -> str:
        """Returns what names a text of the open cell, of its column and its row what says more; "" for nothing."""
        if not self._in_cell or not text or text.isspace():
            return ""
        column, row_head = self._column, self._row_head
        written = " ".join(text.split()) if len(text) <= _LONGEST else ""
        if not row_head:
            self._row_head = written
        if not self._named and column < len(self._names):
            self._names[column] = f"{self._names[column]} {written}".strip()[:_LONGEST]
        if label_score(written):
            # It is a name of a column or row itself.
            return ""
        name = self._names[column] if self._named and column < len(self._names) else ""
        # The first row may have the heads of columns alone, but for the second cell of a table of two.
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
