"""Copies `s3_prefix` inputs in before any step runs. (DECISIONS.md, 5 and 9)."""

import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from backend.runtime.definition import InputDefinition
from backend.runtime.resources import Resources
from backend.workflows.object_storage import s3_client
from backend.workflows.parameters import parse_s3_prefix

if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client
    from types_boto3_s3.type_defs import ObjectTypeDef

MOST_ITEMS_LISTED: Final = 1_000

_PART_BYTES: Final = 1024 * 1024
_LONGEST_NAME_BYTES: Final = 255
_LONGEST_MESSAGE: Final = 1_000


class InputError(Exception):
    """Inputs could not be copied in; the message says which and why, for a person."""


def materialise(
    declared: InputDefinition, uri: str, resources: Resources, folder: Path, stop: threading.Event
) -> dict[str, Any]:
    """Copies every object below the prefix into `folder` and returns the manifest's entry.

    Folders follow the keys below the prefix. Nothing is copied when the listing is empty or beyond the caps. Ends soon
    after `stop` is set.

    Raises:
        InputError: the objects cannot be listed or copied, or are none, too many, too large, or not nameable here.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    connector = resources.connectors.get(declared.connector)
    if connector is None:
        raise InputError(f"Parameter '{declared.parameter}': there is no connector named '{declared.connector}'.")
    try:
        bucket, prefix = parse_s3_prefix(uri)
        _check_inside(connector, bucket, prefix)
        client = s3_client(connector)
        objects = _list(client, declared, bucket, prefix)
        for one in objects:
            _copy(client, bucket, one, _target(folder, one["Key"][len(prefix) :]), stop)
    except (BotoCoreError, ClientError, OSError, ValueError) as error:
        # What the system says of a file names the host's folders.
        why = error.strerror if isinstance(error, OSError) else error
        message = f"Parameter '{declared.parameter}': {uri} could not be copied in: {why}"
        raise InputError(message[:_LONGEST_MESSAGE]) from error
    return {
        "parameter": declared.parameter,
        "connector_id": resources.connector_ids[declared.connector],
        "uri": uri,
        "objects": len(objects),
        "bytes": sum(one["Size"] for one in objects),
        "items": [
            {"key": one["Key"], "size_bytes": one["Size"], "etag": one["ETag"].strip('"')}
            for one in objects[:MOST_ITEMS_LISTED]
        ],
    }


def materialise_all(
    declared: Iterable[InputDefinition],
    parameters: Mapping[str, Any],
    resources: Resources,
    folder: Path,
    stop: threading.Event,
) -> list[dict[str, Any]]:
    """Copies in every input that has a value, each into a folder of its own; gives the run's inputs manifest.

    Raises:
        InputError: as `materialise`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    return [
        materialise(one, parameters[one.parameter], resources, folder / one.parameter, stop)
        for one in declared
        if one.parameter in parameters
    ]


def _check_inside(connector: Mapping[str, Any], bucket: str, prefix: str) -> None:
    """The connector may have changed since the start of the run."""
    prefixes = connector["prefixes"]
    if bucket != connector["bucket"] or (prefixes and not prefix.startswith(tuple(prefixes))):
        raise ValueError("it lies outside of what the connector may read")


def _list(client: "S3Client", declared: InputDefinition, bucket: str, prefix: str) -> "list[ObjectTypeDef]":
    """Every object below the prefix within the caps; the markers that consoles make for folders are none."""
    objects: list[ObjectTypeDef] = []
    size = 0
    for one in _all(client, bucket, prefix):
        if one["Key"].endswith("/") and not one["Size"]:
            continue
        objects.append(one)
        size += one["Size"]
        if len(objects) > declared.max_objects:
            raise ValueError(f"there are more than {declared.max_objects:,} objects (max_objects)")
        if size > declared.max_bytes:
            raise ValueError(f"the objects have more than {declared.max_bytes:,} bytes (max_bytes)")
    if not objects:
        raise ValueError("there are no objects")
    return objects


def _all(client: "S3Client", bucket: str, prefix: str) -> "Iterator[ObjectTypeDef]":
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
        yield from page.get("Contents", ())


def _target(folder: Path, key: str) -> Path:
    """Where a key below the prefix goes: always inside the folder.

    Raises:
        ValueError: its parts are no names of files.
    """
    parts = key.split("/")
    if not {"", ".", ".."}.isdisjoint(parts) or "\0" in key:
        raise ValueError(f"the key {key!r} does not name a file below the prefix")
    if any(len(part.encode()) > _LONGEST_NAME_BYTES for part in parts):
        raise ValueError(f"the key {key!r} has a part of more than {_LONGEST_NAME_BYTES} bytes")
    return folder.joinpath(*parts)


def _copy(client: "S3Client", bucket: str, one: "ObjectTypeDef", target: Path, stop: threading.Event) -> None:
    """Streams one object to a new file; it must still be the one that was listed.

    Raises:
        OSError: a file stands where a folder is needed, or the disk is full.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    body = client.get_object(Bucket=bucket, Key=one["Key"], IfMatch=one["ETag"])["Body"]
    with target.open("xb") as file:
        for part in body.iter_chunks(_PART_BYTES):
            if stop.is_set():
                raise ValueError("the run was stopped")
            file.write(part)
