"""Checks of the object store: access, and lifecycle rules that conflict with the service."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from backend.common.secrets import SecretError
from deploy.config.settings import Objects
from deploy.doctor.examination import ExaminedPart, Finding, Outcome, clock, failed, ok, warning
from deploy.doctor.files import missing_folder, read_only
from deploy.doctor.lost_objects import output_rows

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

_NAME: Final = "objects"
_RIGHTS: Final = "Look at objects.* of the settings and at the rights of the credentials (docs/settings.md)."
_CREDENTIALS: Final = "Look at the access key and its secret in the service's variables or files (docs/settings.md)."
_REMEDIES: Final = {
    "NoSuchBucket": "Make the bucket, or correct objects.bucket.",
    "AccessDenied": "Grant the credentials the rights that docs/settings.md lists.",
    "InvalidAccessKeyId": _CREDENTIALS,
    "SignatureDoesNotMatch": _CREDENTIALS,
    "ExpiredToken": _CREDENTIALS,
    "RequestTimeTooSkewed": "Set this machine's clock, as with chrony or systemd-timesyncd.",
    "NoCredentialsError": "Give the service credentials, by AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or by a role.",
    "EndpointConnectionError": "Look at objects.endpoint_url and objects.region, and at the network.",
}
"""Remedies by the code of an answer or the kind of error."""

# A small result is in its run's row (`result_row_key`).
_NAMED: Final = "SELECT object_key FROM outputs WHERE object_key <> 'runs/' || run_id || '/row/result' LIMIT 100"


def check_objects(examined: ExaminedPart) -> Iterator[Finding]:
    """Checks the store that the settings name."""
    settings = examined.settings.objects
    if settings.store == "folder":
        yield from check_folder(examined)
        return
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield from _bucket(settings)
    except (BotoCoreError, ClientError, ValueError, OSError) as error:
        remedy = _REMEDIES.get(_code(error), _RIGHTS)
        yield failed(_NAME, f"The bucket {settings.bucket} cannot be used: {str(error).rstrip('.')}.", remedy)
        return
    if examined.write_probe:
        yield _probe(examined)


def check_folder(examined: ExaminedPart) -> Iterator[Finding]:
    """Checks the folder of objects, by default below the data folder."""
    given = examined.settings.objects.folder
    folder = given or examined.data / "objects"
    if _are_lost(examined, folder):
        yield failed(
            _NAME,
            f"The database names objects, and {folder} {'has none of them' if folder.exists() else 'is not there'}.",
            "Mount it, or bring the objects back from a backup (docs/operators-guide.md, Backup).",
        )
    elif not folder.exists():
        made = missing_folder(_NAME, folder, "objects.folder" if given else "--data")
        own_disk = given is None or given.is_relative_to(examined.data)
        yield (
            made
            if own_disk or made.outcome is Outcome.FAILED
            else warning(
                _NAME,
                f"{folder}, which objects.folder names, is not there.",
                "If it is a mount, mount it before the start, which makes it on this machine's own disk otherwise.",
            )
        )
    elif (found := read_only(_NAME, folder)) is not None:
        yield found
    elif not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        yield failed(_NAME, f"{folder} cannot be read and written.", "Give it to the user of the service.")
    else:
        yield ok(_NAME, f"{folder} can be read and written.")


def _bucket(settings: Objects) -> Iterator[Finding]:
    from backend.storage.objects.aws_clients import Endpoint, s3_client

    client = s3_client(Endpoint(settings.endpoint_url, settings.region))
    bucket = str(settings.bucket)
    listed = client.list_objects_v2(Bucket=bucket, Prefix=settings.prefix, MaxKeys=1)
    client.list_multipart_uploads(Bucket=bucket, Prefix=settings.prefix, MaxUploads=1)
    yield ok(_NAME, f"The bucket {bucket} can be listed; --write-probe also writes to it.")
    date = listed["ResponseMetadata"]["HTTPHeaders"].get("date")
    if date:
        yield clock("the object store", parsedate_to_datetime(date).timestamp())
    if _answer(client, "get_bucket_versioning", bucket).get("Status"):
        # An erasure removes every version.
        client.list_object_versions(Bucket=bucket, Prefix=settings.prefix, MaxKeys=1)
        yield ok("versions", "The bucket keeps versions, which an erasure removes too.")
    if _answer(client, "get_object_lock_configuration", bucket).get("ObjectLockConfiguration"):
        yield warning(
            "object lock", "The bucket has an object lock: locked objects survive an erasure.", "Use one without it."
        )
    expiring = _answer(client, "get_bucket_lifecycle_configuration", bucket).get("Rules", ())
    if any(_expires_objects(rule, settings.prefix) for rule in expiring):
        yield warning(
            "lifecycle",
            "A lifecycle rule of the bucket expires objects that rows still name.",
            "Take the prefix of this deployment out of it; retention_days removes objects with their rows.",
        )


def _code(error: Exception) -> str:
    answer: dict[str, Any] = getattr(error, "response", {})
    return str(answer.get("Error", {}).get("Code", type(error).__name__))


def _answer(client: "S3Client", operation: str, bucket: str) -> dict[str, Any]:
    """Returns a configuration of the bucket; empty if it is not set, or may not be read."""
    from botocore.exceptions import ClientError

    try:
        return dict(getattr(client, operation)(Bucket=bucket))
    except ClientError:
        return {}


def _expires_objects(rule: dict[str, Any], prefix: str) -> bool:
    """Returns whether a lifecycle rule expires current objects below the service's prefix."""
    given = rule.get("Filter") or {}
    rule_prefix = str(given.get("Prefix") or given.get("And", {}).get("Prefix") or rule.get("Prefix") or "")
    expires = {"Days", "Date"} & set(rule.get("Expiration") or {})
    return (
        rule.get("Status") == "Enabled"
        and bool(expires)
        and (prefix.startswith(rule_prefix) or rule_prefix.startswith(prefix))
    )


def _probe(examined: ExaminedPart) -> Finding:
    from backend.settings import ObjectSettings
    from backend.storage.objects.bucket import BucketObjects
    from backend.storage.objects.interface import ObjectStoreError

    given = {name: getattr(examined.settings.objects, name) for name in Objects.__slots__}
    try:
        BucketObjects(ObjectSettings(**given)).prove()
    except ObjectStoreError as error:
        return failed(_NAME, str(error), _RIGHTS)
    return ok(_NAME, "An object was written, read, listed and removed.")


def _are_lost(examined: ExaminedPart, folder: Path) -> bool:
    """Returns whether rows name objects, and none of a sample exists."""
    named = _named(examined)
    if not named or any((folder / key).exists() for key in named):
        return False
    # An erasure may have removed the objects meanwhile, rows first.
    return bool(named & _named(examined))


def _named(examined: ExaminedPart) -> set[str]:
    """Returns some keys that rows name; none if the database cannot be read, which its own check reports."""
    with suppress(ImportError, SecretError, sqlite3.Error):
        if examined.settings.backend.database is None:
            return {str(key) for (key,) in output_rows(examined, _NAMED)}
        import psycopg

        with suppress(psycopg.Error):
            return {str(key) for (key,) in output_rows(examined, _NAMED)}
    return set()
