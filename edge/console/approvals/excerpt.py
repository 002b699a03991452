"""The beginning of what an approval is about, small enough to stand beside a list."""

from typing import Final

from workflow_api.v1.reviews_pb2 import ReviewMaterial, ReviewTable, ReviewText

_TEXT_CHARS: Final = 4_000
_ALL_CHARS: Final = 24_000
_ROWS: Final = 10
_COLUMNS: Final = 8
_CELL_CHARS: Final = 80


def excerpt(material: ReviewMaterial) -> tuple[ReviewMaterial, bool]:
    """Returns the material with each text and table cut, and whether anything was; steps come before inputs."""
    short = ReviewMaterial()
    short.CopyFrom(material)
    left = _ALL_CHARS
    cut = False
    for text in _texts(short):
        most = min(_TEXT_CHARS, left)
        if len(text.text) > most:
            text.text, text.cut, cut = text.text[:most], True, True
        left -= len(text.text)
    for step in short.steps:
        for file in step.files:
            if file.HasField("table"):
                cut = _cut_table(file.table) or cut
    return short, cut


def _texts(material: ReviewMaterial) -> list[ReviewText]:
    found = []
    for step in material.steps:
        found += [step.value] if step.HasField("value") else []
        found += [file.text for file in step.files if file.HasField("text")]
    if material.HasField("input_text"):
        found.append(material.input_text)
    found.append(material.parameters)
    if material.HasField("inputs_manifest"):
        found.append(material.inputs_manifest)
    return found


def _cut_table(table: ReviewTable) -> bool:
    """Cuts a table in place; returns whether anything of it was cut."""
    long = any(len(cell) > _CELL_CHARS for row in table.rows for cell in row.cells)
    if not (long or len(table.rows) > _ROWS or len(table.columns) > _COLUMNS):
        return False
    del table.rows[_ROWS:]
    del table.columns[_COLUMNS:]
    for row in table.rows:
        row.cells[:] = [cell[:_CELL_CHARS] for cell in row.cells[:_COLUMNS]]
    table.cut = True
    return True
