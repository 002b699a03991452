"""Stores the files of a step's output folder as objects, before its outputs are recorded (contract 25.8)."""

import logging
import threading
from collections.abc import Iterable
from pathlib import Path

from backend.distinct_paths import distinct_paths
from backend.ids import new_id
from backend.outputs.sql import NewOutput
from backend.runtime.promotion.media_types import media_type
from backend.storage.object_keys import object_key
from backend.storage.objects import ObjectStore, StoredObject

_LOG = logging.getLogger(__name__)


def store_outputs(objects: ObjectStore, run_id: str, step: str, folder: Path, halt: threading.Event) -> list[NewOutput]:
    """Stores every file below `folder`, durable on return; returns one output for each, by path.

    Files whose paths differ by case or Unicode normalization alone are renamed first: `name~2.ext`. Starts no file once
    `halt` is set.

    Raises:
        OSError: the store did not take a file; those before it are discarded.
    """
    stored: list[NewOutput] = []
    try:
        for path in _named_apart(folder):
            if halt.is_set():
                break
            stored.append(_store(objects, run_id, step, folder / path, path))
    except BaseException:
        discard(objects, stored)
        raise
    return stored


def discard(objects: ObjectStore, outputs: Iterable[NewOutput]) -> None:
    """Removes the objects of outputs that no row will name; others go with the run's final sweep or erasure."""
    for output in outputs:
        try:
            objects.delete(output.object_key)
        except OSError:
            # A silent store must not be waited for once for each of the others.
            _LOG.exception(
                "Object %s and those after it could not be removed, and nothing names them", output.object_key
            )
            return


def _named_apart(folder: Path) -> list[str]:
    """Renames files that would be one file on other systems; returns the relative paths of all."""
    found = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    names = distinct_paths({path: path for path in found}, lambda _, attempt: str(attempt + 2))
    for path, name in names.items():
        if name != path:
            (folder / path).rename(folder / name)
    return sorted(names.values())


def _store(objects: ObjectStore, run_id: str, step: str, file: Path, relative: str) -> NewOutput:
    output_id = new_id("out")
    stored = objects.put_file(object_key(run_id, output_id), file)
    return new_output(run_id, output_id, f"{step}/{relative}", step, stored)


def new_output(
    run_id: str, output_id: str, path: str, step: str | None, stored: StoredObject, key: str | None = None
) -> NewOutput:
    """Returns an output whose object is stored under its id, unless another key is given."""
    key = key or object_key(run_id, output_id)
    return NewOutput(
        output_id, run_id, path, step, media_type(path), stored.size_bytes, stored.sha256, key, stored.crc32
    )
