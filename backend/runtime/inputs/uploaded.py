"""Copies the files that a person has uploaded for a run in before any step runs."""

import hashlib
import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from backend.retry import Backoff, HaltedError, RetryPolicy
from backend.runtime.inputs.manifest import Entry, Item, item_of, manifest_entry, require_unchanged
from backend.runtime.inputs.s3_prefix import InputError
from backend.storage.objects import ObjectStore
from backend.storage.tables.uploads import UploadFileRow
from backend.uploads.content import contents
from backend.uploads.rules import value_of

_RETRY: Final = RetryPolicy(
    retry_on=lambda error: isinstance(error, OSError | EOFError),
    backoff=Backoff(first_seconds=1.0, longest_seconds=30.0, jitter=0.25),
    seconds=60.0,
)


def materialise_uploads(
    objects: ObjectStore,
    files: Iterable[UploadFileRow],
    folder: Path,
    stop: threading.Event,
    recorded: Mapping[str, Entry],
) -> list[Entry]:
    """Copies every finished file into `folder`, below the name of its parameter; returns the manifest's entries.

    `recorded` is as in `materialise_all`. Ends soon after `stop` is set.

    Raises:
        InputError: a file could not be copied, or is not the one that the run began with.
    """
    items: defaultdict[str, list[Item]] = defaultdict(list)
    upload_ids: dict[str, str] = {}
    for file in files:
        if file.finished:
            upload_ids[file.parameter] = file.upload_id
            items[file.parameter] += _copied(objects, file, folder / file.parameter, stop)
    entries: list[Entry] = []
    for parameter, copied in items.items():
        entry = manifest_entry(parameter, "", value_of(upload_ids[parameter], parameter), copied)
        try:
            require_unchanged(entry, copied, recorded.get(parameter))
        except ValueError as error:
            raise InputError(f"The uploaded files could not be copied in: {error}") from error
        entries.append(entry)
    return entries


def _copied(objects: ObjectStore, file: UploadFileRow, folder: Path, stop: threading.Event) -> list[Item]:
    try:
        return _RETRY.run_blocking(lambda: _copy(objects, file, folder, stop), "Copying an upload", halt=stop)
    except HaltedError:
        raise InputError("Copying the uploaded files was stopped.") from None
    except (OSError, EOFError, KeyError) as error:
        why = "it is no longer stored" if isinstance(error, KeyError) else str(error)
        raise InputError(f"The uploaded file '{file.name}' could not be copied in: {why}") from error


def _copy(objects: ObjectStore, file: UploadFileRow, folder: Path, stop: threading.Event) -> list[Item]:
    items: list[Item] = []
    for path, parts in contents(objects, file):
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256()
        size = 0
        with target.open("wb") as copy:
            for part in parts:
                if stop.is_set():
                    raise InputError("Copying the uploaded files was stopped.")
                digest.update(part)
                size += len(part)
                copy.write(part)
        items.append(item_of(path, size, digest.hexdigest()))
    return items
