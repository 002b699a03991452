"""The beginning of one output: its text, or the first rows of its table, read in a confined process."""

import shutil
import tempfile
import threading
from contextlib import closing
from pathlib import Path
from typing import Final

from backend import json_text
from backend.optional_parts import PARQUET
from backend.previews.sql import PreviewedRunRow
from backend.redaction.formats.preview import (
    MOST_CHARS,
    MOST_ROWS,
    MOST_TABLE_CHARS,
    FilePreview,
    is_separated,
)
from backend.redaction.process.redactor import RedactionError, Redactor
from backend.storage.objects import ObjectStore
from backend.storage.tables.outputs import OutputRow

LARGEST_TABLE: Final = 25_000_000
"""Bytes of a Parquet file, of which all must be read."""

_HEAD_BYTES: Final = 4 * MOST_CHARS
_TABLE_BYTES: Final = 4 * MOST_TABLE_CHARS
_PARQUET: Final = (".parquet", ".pq")
_UNREADABLE: Final = ("image/", "audio/", "video/")
_NEITHER: Final = "It is neither text nor a table."
_PROBLEMS: Final = {"binary": _NEITHER, "not_installed": f"It cannot be read: {PARQUET.not_installed}."}


class FilePreviews:
    """Reads outputs that callers may read; `folder` is for their copies, which are gone on return."""

    def __init__(self, objects: ObjectStore, redactor: Redactor, folder: Path) -> None:
        self._objects = objects
        self._redactor = redactor
        self._folder = folder
        self._halt = threading.Event()
        shutil.rmtree(folder, ignore_errors=True)

    def preview(self, run: PreviewedRunRow, output: OutputRow) -> FilePreview | str:
        """Returns the beginning of an output, or why it is not shown.

        Raises:
            KeyError: it was erased meanwhile.
            OSError, EOFError: the object store failed.
        """
        if output.media_type.startswith(_UNREADABLE):
            return _NEITHER
        parquet = output.path.lower().endswith(_PARQUET)
        if parquet and output.size_bytes > LARGEST_TABLE:
            return f"It is a table of more than {LARGEST_TABLE:,} bytes."
        head = _TABLE_BYTES if is_separated(output.path) else _HEAD_BYTES
        size = output.size_bytes if parquet else min(output.size_bytes, head)
        with closing(self._objects.open_range(output.object_key, 0, size)) as parts:
            content = b"".join(parts)
        head = size < output.size_bytes
        self._folder.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(dir=self._folder))
        try:
            source = scratch / "source"
            source.write_bytes(content)
            # The sweeps of the run are over: nothing is swept here.
            policy = {**json_text.parse(run.pii_policy), "mode": "off", "model": None}
            owner, rows = run.key_id, MOST_ROWS
            found, _ = self._redactor.preview(
                policy, source, output.path, self._halt, owner=owner, rows=rows, head=head
            )
        except RedactionError as error:
            return f"It could not be read: {error}."
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        if isinstance(found, str):
            return _PROBLEMS.get(found, "It is malformed, or too large to be read here.")
        return _NEITHER if found.empty else found

    def close(self) -> None:
        """Ends what is being read."""
        self._halt.set()
        shutil.rmtree(self._folder, ignore_errors=True)
