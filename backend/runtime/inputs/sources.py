"""Copies inputs in before any step runs, from object storage (`s3_prefix` parameters) and from uploads.

See contract 25.6 and docs/connectors.md.
"""

import hashlib
import threading
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from backend.common.distinct_paths import distinct_paths, marked
from backend.common.json_text import JsonMapping
from backend.common.retry import Backoff, HaltedError, RetryPolicy
from backend.common.secrets import Secrets
from backend.resources.connectors.object_storage import explain, failures, list_page, s3_client
from backend.runtime.inputs.copying import (
    CopyHalt,
    Copying,
    Entry,
    Item,
    ListedObject,
    item_of,
    manifest_entry,
    require_free_space,
    require_unchanged,
)
from backend.services.uploads.content import contents
from backend.services.uploads.rules import is_uploaded, value_of
from backend.services.workflows.parameters import may_read, parse_s3_prefix
from backend.services.workflows.resolved_workflow import ResolvedInput
from backend.storage.objects import ObjectStore
from backend.storage.tables.files import UploadFileRow

_MAX_FOLDERS: Final = 64
_LONGEST_PATH: Final = 1_024
_LONGEST_NAME: Final = 255
_SLASH: Final = "%2F"

# Control characters, separators of lines and paragraphs, and halves of characters.
_ENCODED: Final = frozenset({"Cc", "Zl", "Zp", "Cs"})
_DOTS: Final = {"": _SLASH, ".": "%2E", "..": "%2E%2E"}


if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client

_LONGEST_MESSAGE: Final = 1_000


class InputError(Exception):
    """Inputs could not be copied in; the message names the input and the cause, for the caller."""


def materialise(
    declared: ResolvedInput, uri: str, folder: Path, stop: threading.Event, secrets: Secrets, recorded: Entry | None
) -> Entry:
    """Copies every object below the prefix into `folder` and returns the manifest's entry.

    Files are named after the keys below the prefix. Nothing is copied if the listing is empty, beyond its limits or
    differs from the entry `recorded` by the run's first segment. Ends soon after `stop` is set.

    Raises:
        InputError: the objects cannot be listed or copied, are none, too many or too large, or have changed.
    """
    connector = declared.connector
    if connector is None:
        raise InputError(f"Parameter '{declared.parameter}': there is no connector named '{declared.connector_name}'.")
    try:
        bucket, prefix = parse_s3_prefix(uri)
        _check_inside(connector, bucket, prefix)
        halt = CopyHalt(stop)
        client = halt.retry(lambda: s3_client(connector, secrets, attempts=1), f"Credentials for bucket {bucket}")
        copying = Copying(client, connector, halt)
        objects = _within_limits(_list(client, halt, bucket, prefix), declared)
        items = [item_of(one.key, one.size, one.etag.strip('"')) for one in objects]
        entry = manifest_entry(declared.parameter, declared.connector_id, uri, items)
        require_unchanged(entry, items, recorded)
        if not objects:
            raise ValueError("there are no objects")
        folder.mkdir(parents=True, exist_ok=True)
        require_free_space(folder, entry["bytes"])
        names = file_names(one.key[len(prefix) :] for one in objects)
        copying.copy((one, folder / names[one.key[len(prefix) :]]) for one in objects)
    except failures() as error:
        why = explain(error, connector)
        message = f"Parameter '{declared.parameter}': {uri} could not be copied in: {why}"
        raise InputError(message[:_LONGEST_MESSAGE]) from error
    return entry


def materialise_all(
    declared: Iterable[ResolvedInput],
    parameters: JsonMapping,
    folder: Path,
    stop: threading.Event,
    secrets: Secrets,
    recorded: Mapping[str, Entry],
) -> list[Entry]:
    """Copies in every input whose value is an address, each into a folder of its own; returns the inputs manifest.

    `recorded` are the entries of the run's first segment by parameter, empty in that segment.

    Raises:
        InputError: as `materialise`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    return [
        materialise(one, parameters[one.parameter], folder / one.parameter, stop, secrets, recorded.get(one.parameter))
        for one in declared
        if one.parameter in parameters and not is_uploaded(parameters[one.parameter])
    ]


def _check_inside(connector: JsonMapping, bucket: str, prefix: str) -> None:
    """Checks the prefix again, for the connector may have changed since the start of the run."""
    if not may_read(connector, bucket, prefix):
        raise ValueError("it lies outside of what the connector may read")


def _within_limits(found: Iterable[ListedObject], declared: ResolvedInput) -> list[ListedObject]:
    """Returns the objects, without the folder markers that consoles make; raises if they exceed the limits."""
    objects: list[ListedObject] = []
    size = 0
    for one in found:
        if one.key.endswith("/") and not one.size:
            continue
        objects.append(one)
        size += one.size
        if len(objects) > declared.max_objects:
            raise ValueError(f"there are more than {declared.max_objects:,} objects (max_objects)")
        if size > declared.max_bytes:
            raise ValueError(f"the objects have more than {declared.max_bytes:,} bytes (max_bytes)")
    return objects


def _list(client: "S3Client", halt: CopyHalt, bucket: str, prefix: str) -> Iterator[ListedObject]:
    """Yields every object below the prefix; pages are retried one by one, so that no listing starts over."""
    following: dict[str, str] = {}
    while True:
        page = halt.retry(partial(list_page, client, bucket, prefix, **following), f"Listing bucket {bucket}")
        for one in page.get("Contents", ()):
            yield ListedObject(one["Key"], one["Size"], one.get("ETag", ""))
        if not page["IsTruncated"]:
            return
        token = page.get("NextContinuationToken", "")
        if not token or token == following.get("ContinuationToken"):
            raise ValueError("the store says that its listing goes on, and not where")
        following = {"ContinuationToken": token}


def file_names(keys: Iterable[str]) -> Mapping[str, str]:
    """Returns a distinct relative path for each key below an input's prefix.

    A path has no empty part, no `.` or `..`, no part above 255 bytes, at most 64 folders and little above 1,024 bytes;
    no path is a folder of another, and no two differ only in case or Unicode form. A key that is such a path keeps it,
    unless it collides with an earlier one.
    """
    return distinct_paths({key: _plain(key) for key in keys}, _digest)


def _plain(key: str) -> str:
    parts = [_part(part) for part in key.split("/")]
    path = "/".join(parts)
    if len(parts) > _MAX_FOLDERS + 1 or len(path.encode()) > _LONGEST_PATH:
        return marked(parts[-1], _digest(key))
    return path


def _part(part: str) -> str:
    if part in _DOTS:
        return _DOTS[part]
    name = "".join(_percent(one) if unicodedata.category(one) in _ENCODED else one for one in part)
    return name if len(name.encode()) <= _LONGEST_NAME else marked(name, _digest(part))


def _percent(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))


def _digest(key: str, attempt: int = 0) -> str:
    return hashlib.sha256((key + "~" * attempt).encode("utf-8", "surrogatepass")).hexdigest()[:16]


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
        InputError: a file could not be copied, or differs from the file that the run began with.
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
