"""Previews of the files of a run."""

import shutil
import tempfile
import threading
from contextlib import closing
from pathlib import Path
from typing import Final

from backend.common import json_text
from backend.common.optional_parts import PARQUET
from backend.resources.redaction.confined_redactor import ConfinedRedactor, RedactionError
from backend.services.previews.sql import PreviewedRunRow
from backend.storage.objects import ObjectStore
from backend.storage.tables.files import OutputRow
from redaction.formats.preview import (
    MOST_CHARS,
    MOST_ROWS,
    MOST_TABLE_CHARS,
    FilePreview,
    is_separated,
)

LARGEST_TABLE: Final = 25_000_000
"""Bytes of the largest Parquet file that is shown, because all of it must be read."""

_HEAD_BYTES: Final = 4 * MOST_CHARS
_TABLE_BYTES: Final = 4 * MOST_TABLE_CHARS
_PARQUET: Final = (".parquet", ".pq")
_UNREADABLE: Final = ("image/", "audio/", "video/")
_NEITHER: Final = "It is neither text nor a table."
_PROBLEMS: Final = {"binary": _NEITHER, "not_installed": f"It cannot be read: {PARQUET.not_installed}."}


class FilePreviews:
    """Makes previews of released outputs; `folder` is for temporary copies of files."""

    def __init__(self, objects: ObjectStore, redactor: ConfinedRedactor, folder: Path) -> None:
        self._objects = objects
        self._redactor = redactor
        self._folder = folder
        self._halt = threading.Event()
        shutil.rmtree(folder, ignore_errors=True)

    def preview(self, run: PreviewedRunRow, output: OutputRow) -> FilePreview | str:
        """Returns the beginning of an output, or the reason why it is not shown.

        Raises:
            KeyError: the output was erased meanwhile.
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
            # The outputs were swept before they were opened, so they are not swept here.
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
        """Ends the previews under way."""
        self._halt.set()
        shutil.rmtree(self._folder, ignore_errors=True)
