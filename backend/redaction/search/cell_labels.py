"""What the name of a column or key says of the cells under it."""

import re
from collections.abc import Sequence
from typing import Final

from backend.redaction.rules.labels import (
    NAMED_SCORE,
    PART_SCORE,
    PRIVATE_MEMBER,
    has_name_form,
    label_entities,
    may_name,
    plain_label,
)
from backend.redaction.rules.name_forms import may_be_person
from backend.redaction.rules.versions import names_version
from backend.redaction.search.whole_cells import Found
from backend.workflows.entity_types import ENTITY_TYPES

# A longer cell is no value by its label alone.
_LONGEST_LABELLED: Final = 500
_LONGEST_MEMBER: Final = 20_000
_LETTER: Final = re.compile(r"[^\W_]")
# A replacement is no value.
_PLACEHOLDER: Final = re.compile(rf"\[(?:{'|'.join(sorted(ENTITY_TYPES))})\]")
_NOTHING: Final = frozenset({"null", "none", "true", "false"})
# What a machine writes beside a message, under names of such times: a date with a time to the second.
_ZONE: Final = "(?:Z|UTC|[+-][0-9]{2}:?[0-9]{2})"
_LOGGED: Final = re.compile(
    rf"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}[Tt ][0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(?:[.,][0-9]{{1,9}})?(?: ?{_ZONE})?"
)
# As a header of a mail has it.
_MAILED: Final = re.compile(
    "[A-Z][a-z]{2}, [0-9]{1,2} [A-Z][a-z]{2} [0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2} (?:[+-][0-9]{4}|[A-Z]{3})"
)
_MACHINE_TIMES: Final = dict.fromkeys(
    ("ts", "time", "timestamp", "log time", "logged at", "event time", "generated", "generated at"), _LOGGED
) | {"date": _MAILED}
# Four numbers of a version look like an address.
_VERSION: Final = re.compile(r"[vV]?[0-9]{1,5}(?:\.[0-9]{1,6}){1,4}")


class CellLabel:
    """What the name of a column or key says of the values under it.

    `is_part` says whether labels beside it show that it is one of a part of a name.
    """

    def __init__(self, label: str, categories: frozenset[str], floor: float, *, is_part: bool = False) -> None:
        self.plain = plain_label(label)
        # What a machine wrote beside the message that it recorded is no value, nor is a version.
        self.technical = _MACHINE_TIMES.get(self.plain) or (_VERSION if names_version(self.plain) else None)
        named = (*label_entities(self.plain), *((("PERSON", PART_SCORE),) if is_part else ()))
        entities = [(score, entity) for entity, score in named if entity in categories and score >= floor]
        self._value: Found | None = max(entities, default=None)
        # What a cell in the form of a name is under a label that may also name something else.
        self._name: Found | None = None
        if self._value is None and "PERSON" in categories and floor <= NAMED_SCORE and may_name(self.plain):
            self._name = NAMED_SCORE, "PERSON"

    @property
    def names_values(self) -> bool:
        """Returns whether every cell is a value, however little it holds."""
        return self._value is not None

    def values(self, cells: Sequence[str], plain: Sequence[str]) -> list[Found | None]:
        """Returns what each cell is by the label alone.

        `plain` are the cells normalised, without quotes and blanks around them; "" for one that is too long for a name.
        """
        if (value := self._value) is not None:
            longest = _LONGEST_MEMBER if self.plain == PRIVATE_MEMBER else _LONGEST_LABELLED
            given = {cell: value if _may_be_value(cell, longest) else None for cell in set(cells)}
            return [given[cell] for cell in cells]
        if (name := self._name) is not None:
            if may_be_person("\n".join(plain)):
                return [name if has_name_form(inner) else None for inner in plain]
            return [name if has_name_form(inner) and may_be_person(inner) else None for inner in plain]
        return [None] * len(cells)


def _may_be_value(cell: str, longest: int) -> bool:
    if len(cell) > longest:
        return False
    written = _PLACEHOLDER.sub("", cell) if "[" in cell else cell
    return _LETTER.search(written) is not None and cell.lower() not in _NOTHING
