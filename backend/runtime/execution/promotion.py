"""Stores what a step wrote into its output folder, so that its outputs can be recorded. (DECISIONS.md, 5)."""

import logging
import threading
from collections.abc import Iterable
from pathlib import Path

from backend.ids import new_id
from backend.outputs.sql import NewOutput
from backend.runtime.execution.media_types import media_type
from backend.storage.object_keys import object_key
from backend.storage.objects import ObjectStore

_LOG = logging.getLogger(__name__)


def store_outputs(objects: ObjectStore, run_id: str, step: str, folder: Path, halt: threading.Event) -> list[NewOutput]:
    """Stores every file below `folder`, durable on return; one output for each, by path.

    No file is begun once `halt` is set.

    Raises:
        OSError: the store could not take a file; those before it are discarded.
    """
    stored: list[NewOutput] = []
    try:
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            if halt.is_set():
                break
            stored.append(_store(objects, run_id, step, file, file.relative_to(folder).as_posix()))
    except BaseException:
        discard(objects, stored)
        raise
    return stored


def discard(objects: ObjectStore, outputs: Iterable[NewOutput]) -> None:
    """Removes the bytes of outputs that no row will name; what the store keeps goes with the run's erasure."""
    for output in outputs:
        try:
            objects.delete(output.object_key)
        except OSError:
            # One that is silent must not be waited for once more for each of the rest.
            _LOG.exception(
                "Object %s and what comes after it stay stored, though nothing names them", output.object_key
            )
            return


def _store(objects: ObjectStore, run_id: str, step: str, file: Path, relative: str) -> NewOutput:
    output_id = new_id("out")
    size, sha256 = objects.put_file(object_key(run_id, output_id), file)
    return new_output(run_id, output_id, f"{step}/{relative}", step, size, sha256)


def new_output(run_id: str, output_id: str, path: str, step: str | None, size: int, sha256: str) -> NewOutput:
    """An output whose bytes are stored under its id."""
    return NewOutput(output_id, run_id, path, step, media_type(path), size, sha256, object_key(run_id, output_id))
