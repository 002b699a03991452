"""Makes the material of a review: inputs of the run, values and files of the steps that the approval needs."""

import shutil
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from backend.common import json_text
from backend.common.optional_parts import PARQUET
from backend.resources.redaction.confined_redactor import ConfinedRedactor
from backend.services.outputs.sql import outputs_of
from backend.services.reviews import sql
from backend.services.reviews.sweeping import ReviewSweep, swept_inputs
from backend.storage.database import Database, Tx
from backend.storage.objects import ObjectStore
from backend.storage.tables.files import OutputRow
from redaction.formats.preview import MOST_CHARS, FilePreview
from workflow_api.v1 import reviews_pb2

MOST_FILES: Final = 20
LARGEST_FILE: Final = 5_000_000
"""Bytes of the largest file that is read and swept whole."""
MOST_BYTES: Final = 20_000_000
"""Most bytes of all read files together."""
MOST_SHOWN_CHARS: Final = 4_000_000
"""Most characters of all previews together: a small table that repeats its values is large as text."""

_HEAD_BYTES: Final = 4 * MOST_CHARS
_PARQUET_MARK: Final = b"PAR1"
_UNREADABLE: Final = ("image/", "audio/", "video/")
_NEITHER: Final = "It is neither text nor a table."
_NOT_SWEPT: Final = "It could not be swept for personal data."
_REASONS: Final[Mapping[str, str]] = {
    "binary": _NEITHER,
    "not_installed": f"It cannot be read: {PARQUET.not_installed}.",
}


def make_material(
    database: Database,
    objects: ObjectStore,
    redactor: ConfinedRedactor,
    approval_id: str,
    folder: Path,
    halt: threading.Event,
) -> reviews_pb2.ReviewMaterial:
    """Makes the material of an approval that waits; `folder` is for temporary copies of files.

    Raises:
        RedactionError: the content could not be swept.
        OSError, KeyError, EOFError: files could not be read.
    """

    def read(tx: Tx) -> tuple[sql.ReviewedRunRow, list[sql.NeededStepRow], list[OutputRow]]:
        run = sql.reviewed_run(tx, approval_id)
        needed = [sql.needed_step(tx, run.run_id, step) for step in json_text.parse(run.needs)]
        return run, sorted(needed, key=lambda row: row.position), outputs_of(tx, run.run_id)

    run, needed, outputs = database.snapshot(read)
    sweep = ReviewSweep(database, redactor, run, halt)
    inputs = swept_inputs(run, sweep)
    material = reviews_pb2.ReviewMaterial(redacted=sweep.redacts, parameters=_text(inputs.parameters or "{}"))
    if inputs.HasField("input_text"):
        material.input_text.CopyFrom(_text(inputs.input_text))
    if inputs.HasField("inputs_manifest"):
        material.inputs_manifest.CopyFrom(_text(inputs.inputs_manifest))
    folder.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=folder))
    try:
        previews = _Previews(objects, sweep, scratch)
        for row in needed:
            of_step = [output for output in outputs if output.step == row.step]
            step = material.steps.add(step=row.step, name=row.name, files_total=len(of_step))
            step.files.extend(previews.files(of_step[:MOST_FILES]))
            if row.value is not None:
                value = row.value if sweep.values_are_swept else sweep.json(row.value)
                if not any(_shows(file, value) for file in step.files):
                    step.value.CopyFrom(_text(value))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return material


class _Previews:
    """Previews of files, until the bytes and characters allowed are used up."""

    def __init__(self, objects: ObjectStore, sweep: ReviewSweep, scratch: Path) -> None:
        self._objects = objects
        self._sweep = sweep
        self._scratch = scratch
        self._left = MOST_BYTES
        self._left_chars = MOST_SHOWN_CHARS

    def files(self, outputs: Sequence[OutputRow]) -> Iterable[reviews_pb2.ReviewFile]:
        names = self._sweep.names([output.path for output in outputs])
        return [self._file(output, name) for output, name in zip(outputs, names, strict=True)]

    def _file(self, output: OutputRow, name: str) -> reviews_pb2.ReviewFile:
        message = reviews_pb2.ReviewFile(path=name, media_type=output.media_type, size_bytes=output.size_bytes)
        found = self._bounded(self._preview(output))
        if isinstance(found, str):
            message.problem = found
        elif found.empty:
            message.problem = _NEITHER
        elif found.text is not None:
            message.text.CopyFrom(reviews_pb2.ReviewText(text=found.text, cut=found.cut))
        else:
            rows = [reviews_pb2.ReviewRow(cells=row) for row in found.rows]
            message.table.CopyFrom(reviews_pb2.ReviewTable(columns=found.columns, rows=rows, cut=found.cut))
        return message

    def _bounded(self, found: FilePreview | str) -> FilePreview | str:
        """Returns the preview, or the reason that earlier previews have used up the characters."""
        if isinstance(found, str):
            return found
        chars = len(found.text or "") + sum(len(cell) for row in (found.columns, *found.rows) for cell in row)
        if chars > self._left_chars:
            return f"Previews of more than {MOST_SHOWN_CHARS:,} characters together are not shown."
        self._left_chars -= chars
        return found

    def _preview(self, output: OutputRow) -> FilePreview | str:
        """Returns the preview of a file, or the reason why there is none."""
        if output.media_type.startswith(_UNREADABLE):
            return _NEITHER
        size = output.size_bytes
        whole = size <= LARGEST_FILE
        if not whole:
            if self._sweep.redacts:
                return f"It has more than {LARGEST_FILE:,} bytes, and all of it would have to be swept first."
            size = min(size, _HEAD_BYTES)
        if size > self._left:
            return f"Files of more than {MOST_BYTES:,} bytes together are not shown."
        self._left -= size
        with closing(self._objects.open_range(output.object_key, 0, size)) as parts:
            content = b"".join(parts)
        if not whole and content.startswith(_PARQUET_MARK):
            return f"It is a table of more than {LARGEST_FILE:,} bytes."
        source = self._scratch / "source"
        source.write_bytes(content)
        found = self._sweep.preview(source, output.path, head=not whole)
        if isinstance(found, str):
            return _REASONS.get(found, _NOT_SWEPT if self._sweep.redacts else "It is malformed.")
        return found


def _shows(file: reviews_pb2.ReviewFile, value: str) -> bool:
    """Returns whether a file shows all of a value, given as JSON, as the file of a model's answer does."""
    if not file.HasField("text") or file.text.cut or len(value) > json_text.LARGEST_SHARED:
        return False
    parsed = json_text.parse(value)
    try:
        return bool(parsed) and parsed == (
            file.text.text if isinstance(parsed, str) else json_text.parse(file.text.text)
        )
    except (ValueError, RecursionError):
        return False


def _text(text: str) -> reviews_pb2.ReviewText:
    return reviews_pb2.ReviewText(text=text[:MOST_CHARS], cut=len(text) > MOST_CHARS)
