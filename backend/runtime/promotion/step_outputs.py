"""Stores the files that a step left as objects, before they are recorded (contract 25.8, 25.14)."""

import logging
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path

from backend.distinct_paths import distinct_paths
from backend.ids import new_id
from backend.outputs.sql import NewOutput, StepFile
from backend.runtime.promotion.media_types import media_type
from backend.sandbox.inside.protocol import DEVICE, OVER_DIRECTORIES, OVER_FILES, OVER_LEVELS, PIPE, SOCKET, SYMLINK
from backend.settings import OutputLimits
from backend.storage.object_keys import object_key, shared_file_key
from backend.storage.objects import ObjectStore, StoredObject
from backend.storage.tables.outputs import SharedFileRow

_LOG = logging.getLogger(__name__)


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
) -> list[StepFile]:
    """Stores the files below `folder`, durable on return; returns a row for each, by path.

    Files whose paths differ by case or Unicode normalization alone are renamed first, shared files after outputs:
    `name~2.ext`. `shared` has the paths of the shared files, and gets their new ones; without `promote` all files are
    shared. Those are stored only with `share`, where later steps need them. Starts no file once `halt` is set.

    Raises:
        OSError: the store did not take a file; those before it are discarded.
    """
    stored: list[StepFile] = []
    try:
        for path in _named_apart(folder, shared):
            if halt.is_set():
                break
            if promote and path not in shared:
                stored.append(_store_output(objects, run_id, step, folder / path, path))
            elif share:
                stored.append(_store_shared(objects, run_id, step, folder / path, path))
    except BaseException:
        discard(objects, stored)
        raise
    return stored


def discard(objects: ObjectStore, files: Iterable[StepFile]) -> None:
    """Removes the objects of files that no row will name; others go with the run's final sweep or erasure."""
    for file in files:
        try:
            objects.delete(file.object_key)
        except OSError:
            # A silent store must not be waited for once for each of the others.
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


def _named_apart(folder: Path, shared: set[str]) -> list[str]:
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


def _store_output(objects: ObjectStore, run_id: str, step: str, file: Path, relative: str) -> NewOutput:
    output_id = new_id("out")
    stored = objects.put_file(object_key(run_id, output_id), file)
    return new_output(run_id, output_id, f"{step}/{relative}", step, stored)


def _store_shared(objects: ObjectStore, run_id: str, step: str, file: Path, relative: str) -> SharedFileRow:
    key = shared_file_key(run_id, step, new_id("shared"))
    stored = objects.put_file(key, file)
    return SharedFileRow(key, run_id, f"{step}/{relative}", step, stored.size_bytes)


def new_output(
    run_id: str, output_id: str, path: str, step: str | None, stored: StoredObject, key: str | None = None
) -> NewOutput:
    """Returns an output whose object is stored under its id, unless another key is given."""
    key = key or object_key(run_id, output_id)
    return NewOutput(
        output_id, run_id, path, step, media_type(path), stored.size_bytes, stored.sha256, key, stored.crc32
    )
