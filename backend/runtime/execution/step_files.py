"""Files of completed steps on this machine's disk, for the steps that need them (contract 25.1)."""

import shutil
import tempfile
import threading
from collections.abc import Iterable
from pathlib import Path

from backend.runtime.execution import retries
from backend.runtime.execution.segment_context import SegmentContext
from backend.runtime.run_redaction import RunRedaction
from backend.services.outputs.sql import outputs_of, shared_files_of
from backend.services.runs.redaction_manifest_sql import STEPS
from backend.storage.database import Tx
from backend.storage.objects import ObjectStore
from backend.storage.objects.interface import copy_to_file
from backend.storage.tables.files import OutputRow, SharedFileRow
from redaction.counts import Counts


def move_files_for_steps(
    context: SegmentContext, run_id: str, step: str, folder: Path, redaction: RunRedaction | None, halt: threading.Event
) -> Counts | None:
    """Moves the files of a completed step, or of an item `<step>/<index>`, to the folder for later steps.

    If the policy covers `steps`, sweeps the files first, and returns the counts of that sweep.

    Raises:
        RedactionError: the files could not be swept.
    """
    counts = _sweep(folder, redaction, halt)
    kept = context.files_of_run(run_id) / step
    kept.parent.mkdir(parents=True, exist_ok=True)
    folder.rename(kept)
    return counts


def files_of(
    context: SegmentContext, run_id: str, steps: Iterable[str], redaction: RunRedaction | None, halt: threading.Event
) -> dict[str, Path]:
    """Returns the folders of the completed steps with files; restores missing folders from the objects.

    Raises:
        OSError, KeyError, EOFError: the objects could not be read.
        RedactionError: as `move_files_for_steps`.
    """
    kept = {step: context.files_of_run(run_id) / step for step in steps}
    missing = [step for step, folder in kept.items() if not folder.exists()]
    if missing:
        files = retries.DATABASE.run_blocking(
            lambda: context.database.read(lambda tx: _rows_of(tx, run_id)),
            f"Reading the files of run {run_id}",
            halt,
        )
        for step in missing:
            of_step = [file for file in files if file.step == step]
            if of_step:
                _restore(context.objects, kept[step], of_step, redaction, halt)
    return {step: folder for step, folder in kept.items() if folder.exists()}


def drop_files(context: SegmentContext, run_id: str) -> None:
    """Removes the files of a parked run from this disk; the objects stay."""
    shutil.rmtree(context.files_of_run(run_id), ignore_errors=True)


def _sweep(folder: Path, redaction: RunRedaction | None, halt: threading.Event) -> Counts | None:
    return redaction.folder(folder, halt) if redaction is not None and redaction.covers(STEPS) else None


def _rows_of(tx: Tx, run_id: str) -> list[OutputRow | SharedFileRow]:
    return [*outputs_of(tx, run_id), *shared_files_of(tx, run_id)]


def _restore(
    objects: ObjectStore,
    kept: Path,
    files: Iterable[OutputRow | SharedFileRow],
    redaction: RunRedaction | None,
    halt: threading.Event,
) -> None:
    kept.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=".", dir=kept.parent))
    try:
        for file in files:
            target = folder / file.path
            target.parent.mkdir(parents=True, exist_ok=True)
            copy_to_file(objects, file.object_key, file.size_bytes, target, halt)
        # The counts of this sweep were recorded when the step completed.
        _sweep(folder / kept.name, redaction, halt)
        # Renamed as a whole: a concurrent step that needs the same files may have restored them first.
        if not kept.exists():
            (folder / kept.name).rename(kept)
    except OSError:
        if not kept.exists():
            raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)
