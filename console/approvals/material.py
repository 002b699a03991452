"""What an approval is about as a row of parts, of which a page shows as many as it has room for."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from console.rendering import formatting
from console.rendering.page_budget import PageBudget, html_bytes
from workflow_api.v1.reviews_pb2 import ReviewFile, ReviewMaterial, ReviewStep, ReviewTable

_EMPTY: Final = frozenset({"", "{}"})
_OF_PART: Final = 300
_NAMES_OF_PART: Final = 3
_OF_CELL: Final = 12
"""Bytes of markup, of which names come several times."""


class Part(NamedTuple):
    """A value, a file or an input: a text, a table, or a note in their place.

    Attributes:
        section: The step or the inputs that it belongs to.
        name: Its heading; empty for a note about the section.
        about: Its media type and size.
        cut: Whether there is more of it than the backend prepared.
    """

    section: str
    name: str
    about: str = ""
    text: str = ""
    table: ReviewTable | None = None
    note: str = ""
    cut: bool = False


class PartLimits(NamedTuple):
    """How much of a part is shown beside others, at most; a page of its own shows it on."""

    chars: int
    rows: int


class PartExcerpt(NamedTuple):
    """What a page shows of a part, from a character or a row on.

    `following` is where the rest of it begins, if there is any.
    """

    number: int
    part: Part
    text: str
    rows: Sequence[Sequence[str]]
    following: int | None


_ALL: Final = PartLimits(2**31, 2**31)


def parts_of(material: ReviewMaterial) -> list[Part]:
    """Returns the parts: of each step its value and its files, then the inputs of the run."""
    found: list[Part] = []
    for step in material.steps:
        found += _of_step(step)
    if not material.steps:
        found.append(Part("Steps", "", note="It needs no other step."))
    return found + _of_inputs(material)


def page_of(
    parts: Sequence[Part], first: int, limits: PartLimits, room: PageBudget
) -> tuple[Sequence[PartExcerpt], int | None]:
    """Returns the parts from number `first` on, as many as there is room for, and the number of the next, if any."""
    shown: list[PartExcerpt] = []
    for number, part in enumerate(parts[first:], first):
        if not shown:
            # So that whoever reads on gets to the end.
            room.spend(_frame_of(part))
        elif not room.holds(_frame_of(part)):
            return shown, number
        shown.append(_shown(number, part, 0, limits, room))
    return shown, None


def rest_of(parts: Sequence[Part], number: int, begin: int, room: PageBudget) -> PartExcerpt | None:
    """Returns a part from a character or a row on, as much as there is room for; None where there is no such part."""
    if number >= len(parts):
        return None
    part = parts[number]
    room.spend(_frame_of(part))
    return _shown(number, part, begin, _ALL, room)


def _of_step(step: ReviewStep) -> list[Part]:
    section = f"Step {step.name or step.step}"
    value = formatting.json_lines(step.value.text) if step.HasField("value") else ""
    found = []
    if value not in {"", "null"}:
        found.append(Part(section, "Value", text=value, cut=step.value.cut))
    found += [_of_file(section, file) for file in step.files]
    left_out = step.files_total - len(step.files)
    if left_out > 0:
        found.append(Part(section, "", note=f"{left_out:,} more files are not shown."))
    return found or [Part(section, "", note="It returned nothing and left no file.")]


def _of_file(section: str, file: ReviewFile) -> Part:
    part = Part(section, file.path, f"{file.media_type}, {formatting.size(file.size_bytes)}")
    if file.HasField("text"):
        return part._replace(text=file.text.text, cut=file.text.cut)
    if file.HasField("table"):
        return part._replace(table=file.table, cut=file.table.cut)
    return part._replace(note=f"Not shown. {file.problem}")


def _of_inputs(material: ReviewMaterial) -> list[Part]:
    section = "Inputs"
    found = []
    if material.HasField("input_text"):
        found.append(Part(section, "Text", text=material.input_text.text, cut=material.input_text.cut))
    for name, given in (("Parameters", material.parameters), ("Copied inputs", material.inputs_manifest)):
        if given.text not in _EMPTY:
            found.append(Part(section, name, text=formatting.json_lines(given.text), cut=given.cut))
    return found or [Part(section, "", note="The run was given no input.")]


def _frame_of(part: Part) -> int:
    """Returns the bytes that a part takes without its text and its rows."""
    size = _OF_PART + _NAMES_OF_PART * html_bytes(part.name) + html_bytes(part.section + part.about + part.note)
    return size + (0 if part.table is None else sum(_OF_CELL + html_bytes(each) for each in part.table.columns))


def _shown(number: int, part: Part, begin: int, limits: PartLimits, room: PageBudget) -> PartExcerpt:
    if part.table is not None:
        rows = []
        for row in part.table.rows[begin : begin + limits.rows]:
            if not room.holds(sum(_OF_CELL + html_bytes(cell) for cell in row.cells)):
                break
            rows.append(list(row.cells))
        end = begin + len(rows)
        return PartExcerpt(number, part, "", rows, end if end < len(part.table.rows) else None)
    text, cut = room.begin(part.text[begin:], limits.chars)
    return PartExcerpt(number, part, text, (), begin + len(text) if cut else None)
