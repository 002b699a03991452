"""Stores the result of a run and the files of its steps as objects, and makes their rows.

Objects are stored before rows name them (contract 14.9, 14.11, 25.8, 25.14).
"""

import logging
import mimetypes
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from backend.common.distinct_paths import distinct_paths
from backend.common.ids import new_id
from backend.isolation.sandbox.inside.channel import (
    DEVICE,
    OVER_DIRECTORIES,
    OVER_FILES,
    OVER_LEVELS,
    PIPE,
    SOCKET,
    SYMLINK,
)
from backend.services.outputs.sql import NewOutput, StepFile
from backend.services.runs.lifecycle import RunResult
from backend.settings import OutputLimits
from backend.storage.object_keys import object_key, result_row_key, shared_file_key
from backend.storage.objects import ContentDigest, ObjectStore, StoredObject
from backend.storage.tables.files import SharedFileRow

LARGEST_INLINE_BYTES: Final = 262_144
RESULT_PATH: Final = "result.json"
SCHEMA_MISMATCH: Final = "result_schema_mismatch"
SUMMARY_TOO_LONG: Final = (
    f"The result's summary_markdown has more than {LARGEST_INLINE_BYTES:,} bytes: it is only in the output result.json."
)

SUMMARY: Final = "summary_markdown"

_LOG = logging.getLogger(__name__)

UNKNOWN: Final = "application/octet-stream"

# The library's own table only: the host's files would make the answer depend on the machine.
_TYPES: Final = mimetypes.MimeTypes()
for _ending, _type in {
    ".csv": "text/csv",
    ".jsonl": "application/jsonl",
    ".md": "text/markdown",
    ".nq": "application/n-quads",
    ".nt": "application/n-triples",
    ".parquet": "application/vnd.apache.parquet",
    ".ttl": "text/turtle",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
}.items():
    _TYPES.add_type(_type, _ending)
_OF_ENCODING: Final = {"gzip": "application/gzip", "bzip2": "application/x-bzip2", "xz": "application/x-xz"}


class StoredResult(NamedTuple):
    """The result columns of a run, the output `result.json`, and warnings."""

    result: RunResult
    output: NewOutput
    warnings: list[str]


def make_result(
    objects: ObjectStore, run_id: str, value: str, mismatch: str | None, summary: str | None = None
) -> StoredResult:
    """Stores the result, JSON text, as object `result.json`.

    `mismatch` says why the result does not fit its schema; `summary` is the summary in it, if any.

    Raises:
        OSError: the object store failed.
    """
    output_id = new_id("out")
    key = object_key(run_id, output_id)
    return _stored_result(run_id, output_id, key, value, objects.put_bytes(key, value.encode()), mismatch, summary)


def result_in_row(run_id: str, value: str, summary: str | None = None) -> StoredResult:
    """Makes an inline result that fits its schema, whose `result.json` is read from the row of its run."""
    digest = ContentDigest()
    digest.update(value.encode())
    return _stored_result(run_id, new_id("out"), result_row_key(run_id), value, digest.stored(), None, summary)


def _stored_result(
    run_id: str,
    output_id: str,
    key: str,
    value: str,
    stored: StoredObject,
    mismatch: str | None,
    summary: str | None,
) -> StoredResult:
    result = RunResult(
        value=inline_result(value) if mismatch is None else None,
        output_id=output_id,
        size_bytes=stored.size_bytes,
        sha256=stored.sha256,
        error_code=None if mismatch is None else SCHEMA_MISMATCH,
        error_message=mismatch,
        summary_markdown=None if summary is None else inline_result(summary),
    )
    output = new_output(run_id, output_id, RESULT_PATH, None, stored, key)
    return StoredResult(result, output, summary_warnings(summary))


def inline_result(text: str) -> str | None:
    """Returns JSON text of up to 262,144 bytes, which a run shows; None for longer text."""
    return text if len(text.encode()) <= LARGEST_INLINE_BYTES else None


def may_carry_summary(value: str) -> bool:
    """Returns whether a value, JSON text, may carry a summary; the text is searched for the member's name."""
    return value.startswith("{") and f'"{SUMMARY}"' in value


def carried_summary(value: object) -> str | None:
    """Returns the summary that a value carries, of any length."""
    summary = value.get(SUMMARY) if isinstance(value, dict) else None
    return summary if isinstance(summary, str) else None


def summary_warnings(summary: str | None) -> list[str]:
    """Returns the warning about a summary beyond the bound, which only `result.json` holds."""
    return [] if summary is None or inline_result(summary) is not None else [SUMMARY_TOO_LONG]


def store_files(
    objects: ObjectStore,
    run_id: str,
    step: str,
    folder: Path,
    shared: set[str],
    halt: threading.Event,
    *,
    promote: bool = True,
    share: bool = True,
    item_index: int | None = None,
) -> list[StepFile]:
    """Stores the files below `folder`, durable on return; returns a row for each, by path.

    The path of a file is `<step>/<relative path>`, and `<step>/<item_index>/<relative path>` of an item of a fan-out.

    Files whose paths differ by case or Unicode normalization alone are renamed first, shared files after outputs:
    `name~2.ext`. `shared` has the paths of the shared files, and gets their new ones; without `promote` all files are
    shared. Those are stored only with `share`, where later steps need them. Starts no file once `halt` is set.

    Raises:
        OSError: the store did not take a file; the files stored before it are discarded.
    """
    stored: list[StepFile] = []
    below = step if item_index is None else f"{step}/{item_index}"
    try:
        for path in _rename_colliding(folder, shared):
            if halt.is_set():
                break
            if promote and path not in shared:
                stored.append(_store_output(objects, run_id, step, folder / path, f"{below}/{path}"))
            elif share:
                stored.append(_store_shared(objects, run_id, step, folder / path, f"{below}/{path}"))
    except BaseException:
        discard(objects, stored)
        raise
    return stored


def discard(objects: ObjectStore, files: Iterable[StepFile]) -> None:
    """Removes objects that no row will name; after a failure, the final sweep or an erasure removes the rest."""
    for file in files:
        try:
            objects.delete(file.object_key)
        except OSError:
            # An unresponsive store would delay each further removal.
            _LOG.exception("Object %s and those after it could not be removed, and nothing names them", file.object_key)
            return


def skipped_warning(step: str, skipped: Mapping[str, int], limits: OutputLimits) -> str:
    """Returns a warning that counts, by kind, the entries of a step's folders that were left out."""
    words = {
        SYMLINK: "symbolic links",
        PIPE: "named pipes",
        SOCKET: "sockets",
        DEVICE: "devices",
        OVER_FILES: f"over the limit of {limits.files:,} files",
        OVER_DIRECTORIES: f"over the limit of {limits.directories:,} directories",
        OVER_LEVELS: f"more than {limits.levels} directories deep",
    }
    counts = ", ".join(f"{skipped[kind]} {what}" for kind, what in words.items() if kind in skipped)
    return f"Step '{step}' left files that are no outputs: {counts}."


def _rename_colliding(folder: Path, shared: set[str]) -> list[str]:
    """Renames files that would be one file on other systems; returns the relative paths of all."""
    found = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    found.sort(key=lambda path: (path in shared, path))
    names = distinct_paths({path: path for path in found}, lambda _, attempt: str(attempt + 2))
    for path, name in names.items():
        if name != path:
            (folder / path).rename(folder / name)
            if path in shared:
                shared.remove(path)
                shared.add(name)
    return sorted(names.values())


def _store_output(objects: ObjectStore, run_id: str, step: str, file: Path, path: str) -> NewOutput:
    output_id = new_id("out")
    stored = objects.put_file(object_key(run_id, output_id), file)
    return new_output(run_id, output_id, path, step, stored)


def _store_shared(objects: ObjectStore, run_id: str, step: str, file: Path, path: str) -> SharedFileRow:
    key = shared_file_key(run_id, step, new_id("shared"))
    stored = objects.put_file(key, file)
    return SharedFileRow(key, run_id, path, step, stored.size_bytes)


def new_output(
    run_id: str, output_id: str, path: str, step: str | None, stored: StoredObject, key: str | None = None
) -> NewOutput:
    """Returns an output whose object is stored under its id, unless another key is given."""
    key = key or object_key(run_id, output_id)
    return NewOutput(
        output_id, run_id, path, step, media_type(path), stored.size_bytes, stored.sha256, key, stored.crc32
    )


def media_type(path: str) -> str:
    """Returns the media type, `application/octet-stream` where the name does not show it."""
    # Not a URL: a colon in a file's name is only a character.
    found, encoding = _TYPES.guess_type("x/" + path.rpartition("/")[2])
    if encoding is not None:
        return _OF_ENCODING.get(encoding, UNKNOWN)
    return found or UNKNOWN
