"""Stores what a step wrote into its output folder, so that its outputs can be recorded. (DECISIONS.md, 5)."""

from pathlib import Path

from backend.ids import new_id
from backend.outputs.objects import object_key
from backend.runtime.changes import Row
from backend.runtime.media_types import media_type
from backend.storage.objects import ObjectStore


def store_outputs(objects: ObjectStore, run_id: str, step: str, folder: Path, at: int) -> list[Row]:
    """Stores every file below `folder`, durable on return; one row of the table of outputs for each, by path.

    Raises:
        OSError: the store could not take a file.
    """
    if not folder.is_dir():
        return []
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return [_store(objects, run_id, step, file, file.relative_to(folder).as_posix(), at) for file in files]


def _store(objects: ObjectStore, run_id: str, step: str, file: Path, relative: str, at: int) -> Row:
    output_id = new_id("out")
    key = object_key(run_id, output_id)
    size, sha256 = objects.put_file(key, file)
    return output_row(run_id, output_id, f"{step}/{relative}", step, size, sha256, at)


def output_row(run_id: str, output_id: str, path: str, step: str | None, size: int, sha256: str, at: int) -> Row:
    """A row of the table of outputs."""
    return {
        "output_id": output_id,
        "run_id": run_id,
        "path": path,
        "step": step,
        "media_type": media_type(path),
        "size_bytes": size,
        "sha256": sha256,
        "created_at": at,
        "object_key": object_key(run_id, output_id),
    }
