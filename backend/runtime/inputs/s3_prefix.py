"""Copies `s3_prefix` inputs in before any step runs (contract 25.6; docs/connectors.md)."""

import threading
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from backend.connectors.object_storage import s3_client
from backend.connectors.s3_errors import explain, failures, list_page
from backend.runtime.inputs.copying import Copying, ListedObject, require_free_space
from backend.runtime.inputs.halting import CopyHalt
from backend.runtime.inputs.manifest import Entry, item_of, manifest_entry, require_unchanged
from backend.runtime.inputs.names import file_names
from backend.secrets import Secrets
from backend.uploads.rules import is_uploaded
from backend.workflows.parameters import may_read, parse_s3_prefix
from backend.workflows.terms import InputTerms

if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client

_LONGEST_MESSAGE: Final = 1_000


class InputError(Exception):
    """Inputs could not be copied in; the message names the input and the cause, for the caller."""


def materialise(
    declared: InputTerms, uri: str, folder: Path, stop: threading.Event, secrets: Secrets, recorded: Entry | None
) -> Entry:
    """Copies every object below the prefix into `folder` and returns the manifest's entry.

    Files are named after the keys below the prefix. Nothing is copied where the listing is empty, beyond its limits or
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
    declared: Iterable[InputTerms],
    parameters: Mapping[str, Any],
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


def _check_inside(connector: Mapping[str, Any], bucket: str, prefix: str) -> None:
    """Checks the prefix again, for the connector may have changed since the start of the run."""
    if not may_read(connector, bucket, prefix):
        raise ValueError("it lies outside of what the connector may read")


def _within_limits(found: Iterable[ListedObject], declared: InputTerms) -> list[ListedObject]:
    """Returns the objects, which must be within the limits; leaves out the folder markers that consoles make."""
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
    """Yields every object below the prefix; each page is retried by itself, so that no listing starts over."""
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
