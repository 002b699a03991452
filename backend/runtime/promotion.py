"""Stores what a step wrote into its output folder, so that its outputs can be recorded. (DECISIONS.md, 5)."""

from pathlib import Path

from backend.ids import new_id
from backend.outputs.objects import object_key
from backend.outputs.store import NewOutput
from backend.runtime.media_types import media_type
from backend.storage.objects import ObjectStore


def store_outputs(objects: ObjectStore, run_id: str, step: str, folder: Path) -> list[NewOutput]:
    """Stores every file below `folder`, durable on return; one output for each, by path.

    Raises:
        OSError: the store could not take a file.
    """
    if not folder.is_dir():
        return []
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return [_store(objects, run_id, step, file, file.relative_to(folder).as_posix()) for file in files]


def _store(objects: ObjectStore, run_id: str, step: str, file: Path, relative: str) -> NewOutput:
    output_id = new_id("out")
    size, sha256 = objects.put_file(object_key(run_id, output_id), file)
    return new_output(run_id, output_id, f"{step}/{relative}", step, size, sha256)


def new_output(run_id: str, output_id: str, path: str, step: str | None, size: int, sha256: str) -> NewOutput:
    """An output whose bytes are stored under its id."""
    return NewOutput(output_id, run_id, path, step, media_type(path), size, sha256, object_key(run_id, output_id))
