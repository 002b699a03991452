"""Makes the material of a review: inputs of the run, values and files of the steps that the approval needs."""

import shutil
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

from backend.common import json_text
from backend.common.optional_parts import PARQUET
from backend.resources.redaction.confined_redactor import ConfinedRedactor
from backend.resources.renderings.renderer import MOST_MARKDOWN_CHARS, Rendered, Renderer
from backend.services.outputs.sql import outputs_of
from backend.services.reviews import sql
from backend.services.reviews.sweeping import ReviewSweep, swept_inputs
from backend.storage.database import Database, Tx
from backend.storage.object_keys import object_key
from backend.storage.objects import ObjectStore
from backend.storage.tables.files import OutputRow
from redaction.formats.preview import MOST_CHARS, FilePreview
from workflow_api.v1 import reviews_pb2

MOST_FILES: Final = 20
LARGEST_FILE: Final = 5_000_000
"""Bytes of the largest file that is read and swept whole."""
MOST_BYTES: Final = 20_000_000
"""Most bytes of all swept files together."""
MOST_SHOWN_CHARS: Final = 4_000_000
"""Most characters of all previews together: a small table that repeats its values is large as text."""

LARGEST_UNSWEPT: Final = 25_000_000
"""Bytes of the largest table, picture or PDF that is read whole where nothing is swept."""
MOST_UNSWEPT_BYTES: Final = 60_000_000
"""Most bytes of all read files together where nothing is swept."""

_HEAD_BYTES: Final = 4 * MOST_CHARS
_UNREADABLE: Final = ("audio/", "video/")
# A picture by its name that is a text: it is shown as one.
_SVG: Final = "image/svg+xml"
_PDF: Final = "application/pdf"
_MARKDOWN: Final = "text/markdown"
_PARQUET_NAMES: Final = (".parquet", ".pq")
_TABLES: Final = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", *_PARQUET_NAMES)
_NEITHER: Final = "It is neither text nor a table."
_NOT_SWEPT: Final = "It could not be swept for personal data."
_REASONS: Final[Mapping[str, str]] = {
    "binary": _NEITHER,
    "not_installed": f"It cannot be read: {PARQUET.not_installed}.",
}


def copy_name(approval_id: str, output_id: str) -> str:
    """Returns the name of the swept copy of a file, among the objects of its run."""
    return f"reviews/{approval_id}-{output_id}"


def make_material(
    database: Database,
    objects: ObjectStore,
    redactor: ConfinedRedactor,
    renderer: Renderer,
    approval_id: str,
    folder: Path,
    halt: threading.Event,
) -> reviews_pb2.ReviewMaterial:
    """Makes the material of an approval that waits, and stores the swept copies of its files with the run.

    `folder` is for temporary copies of files.

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
        previews = _Previews(objects, sweep, renderer, scratch, run)
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

    def __init__(
        self, objects: ObjectStore, sweep: ReviewSweep, renderer: Renderer, scratch: Path, run: sql.ReviewedRunRow
    ) -> None:
        self._objects = objects
        self._sweep = sweep
        self._renderer = renderer
        self._scratch = scratch
        self._run = run
        self._left = MOST_BYTES if sweep.redacts else MOST_UNSWEPT_BYTES
        self._left_chars = MOST_SHOWN_CHARS

    def files(self, outputs: Sequence[OutputRow]) -> Iterable[reviews_pb2.ReviewFile]:
        names = self._sweep.names([output.path for output in outputs])
        return [self._file(output, name) for output, name in zip(outputs, names, strict=True)]

    def _file(self, output: OutputRow, name: str) -> reviews_pb2.ReviewFile:
        message = reviews_pb2.ReviewFile(path=name, media_type=output.media_type, size_bytes=output.size_bytes)
        if not self._sweep.redacts:
            message.output_id, message.given_bytes = output.output_id, output.size_bytes
        self._show(message, output)
        return message

    def _show(self, message: reviews_pb2.ReviewFile, output: OutputRow) -> None:
        """Fills in what people see of a file, or the reason why they see nothing."""
        found = self._bounded(self._preview(message, output))
        if isinstance(found, str):
            message.problem = found
        elif isinstance(found, Rendered):
            message.picture, message.pages = bool(found.media_type), found.pages
        elif found.empty:
            message.problem = _NEITHER
        elif found.text is None:
            message.table.CopyFrom(table_message(found))
        else:
            message.text.CopyFrom(reviews_pb2.ReviewText(text=found.text, cut=found.cut))
            if output.media_type == _MARKDOWN:
                html = self._renderer.markdown(found.text, self._run.key_id)
                if html is not None:
                    message.html = html
                    message.text.cut |= len(found.text) > MOST_MARKDOWN_CHARS

    def _bounded(self, found: FilePreview | Rendered | str) -> FilePreview | Rendered | str:
        """Returns the preview, or the reason that earlier previews have used up the characters."""
        if not isinstance(found, FilePreview):
            return found
        chars = len(found.text or "") + sum(len(cell) for row in (found.columns, *found.rows) for cell in row)
        if chars > self._left_chars:
            return f"Previews of more than {MOST_SHOWN_CHARS:,} characters together are not shown."
        self._left_chars -= chars
        return found

    def _preview(self, message: reviews_pb2.ReviewFile, output: OutputRow) -> FilePreview | Rendered | str:
        """Returns the preview of a file, or the reason why there is none."""
        kind = _FileKind.of(output)
        whole = output.size_bytes <= (LARGEST_UNSWEPT if kind.whole and not self._sweep.redacts else LARGEST_FILE)
        problem = self._refusal(output, kind, whole=whole)
        if problem:
            return problem
        size = output.size_bytes if whole else min(output.size_bytes, _HEAD_BYTES)
        if size > self._left:
            most = MOST_BYTES if self._sweep.redacts else MOST_UNSWEPT_BYTES
            return f"Files of more than {most:,} bytes together are not shown."
        self._left -= size
        source = self._scratch / "source"
        with closing(self._objects.open_range(output.object_key, 0, size)) as parts:
            source.write_bytes(b"".join(parts))
        if self._sweep.redacts:
            swept = self._scratch / "swept"
            outcome = self._sweep.file(source, swept, output.path)
            if outcome.withheld:
                return _REASONS.get(outcome.reason or "", _NOT_SWEPT)
            source = swept
            key = object_key(self._run.run_id, copy_name(self._run.approval_id, output.output_id))
            message.given_bytes = self._objects.put_file(key, source).size_bytes
            message.output_id = output.output_id
        return self._content(source, output, kind, whole=whole)

    def _content(
        self, source: Path, output: OutputRow, kind: "_FileKind", *, whole: bool
    ) -> FilePreview | Rendered | str:
        if kind.picture:
            return self._renderer.picture(source, self._run.key_id)
        if kind.pdf:
            return self._renderer.document(source, self._run.key_id)
        found = self._sweep.preview(source, output.path, head=not whole)
        if isinstance(found, str) and not whole:
            return f"It is a table of more than {LARGEST_FILE:,} bytes, or malformed."
        return _REASONS.get(found, "It is malformed.") if isinstance(found, str) else found

    def _refusal(self, output: OutputRow, kind: "_FileKind", *, whole: bool) -> str:
        """Returns the reason why a file is not read; empty for one that is."""
        redacts = self._sweep.redacts
        if output.media_type.startswith(_UNREADABLE):
            return _NEITHER
        if redacts and kind.picture:
            return "It is a picture, which cannot be swept for personal data."
        if not whole and redacts:
            return f"It has more than {LARGEST_FILE:,} bytes, and all of it would have to be swept first."
        if not whole and (kind.picture or kind.pdf or output.path.lower().endswith(_PARQUET_NAMES)):
            return f"It has more than {LARGEST_UNSWEPT:,} bytes."
        return ""


class _FileKind(NamedTuple):
    """Kind of a file by its name: a picture, a PDF, and whether it is shown only if all of it can be read."""

    picture: bool
    pdf: bool
    whole: bool

    @classmethod
    def of(cls, output: OutputRow) -> "_FileKind":
        picture = output.media_type.startswith("image/") and output.media_type != _SVG
        pdf = output.media_type == _PDF
        return cls(picture, pdf, picture or pdf or output.path.lower().endswith(_TABLES))


def table_message(found: FilePreview) -> reviews_pb2.ReviewTable:
    """Returns rows of a table."""
    rows = [reviews_pb2.ReviewRow(cells=row) for row in found.rows]
    return reviews_pb2.ReviewTable(columns=found.columns, rows=rows, cut=found.cut, rows_total=found.total)


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
