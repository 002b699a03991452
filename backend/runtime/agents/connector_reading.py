"""Reads objects for an agent that calls a model, within what a connector of its step allows."""

from collections.abc import Mapping
from typing import Any, Final

from backend.connectors.object_storage import s3_client
from backend.connectors.s3_errors import CredentialsError, RoleError, code_of, failures, list_page
from backend.models.catalog import SECRET_UNAVAILABLE
from backend.runtime.agents.base import StepFailed
from backend.runtime.agents.reading import MOST_LISTED, READ_BYTES, text_part
from backend.secrets import Secrets
from backend.workflows.parameters import may_read

OUTSIDE: Final = {"error": "that lies outside of what the connector may read"}
ROLE_NOT_ASSUMED: Final = "RoleNotAssumed"

Connectors = Mapping[str, Mapping[str, Any]]


def list_objects(secrets: Secrets, connectors: Connectors, connector: str, prefix: str) -> dict[str, Any]:
    """Returns key and size of the first objects under a prefix; blocks.

    Raises:
        StepFailed: the connector's secret or role cannot be used, which the model cannot change.
    """
    declared = connectors.get(connector)
    if declared is None:
        return _unknown(connectors)
    allowed = declared["prefixes"]
    if not prefix and allowed:
        return {"prefixes": list(allowed)}
    if not _inside(declared, prefix):
        return OUTSIDE
    try:
        client = s3_client(declared, secrets)
        page = list_page(client, declared["bucket"], prefix, MaxKeys=MOST_LISTED)
    except CredentialsError as error:
        raise _unusable(connector, error) from error
    except failures() as error:
        return _failed(error)
    listed = [{"key": one["Key"], "size_bytes": one["Size"]} for one in page.get("Contents", ())]
    return {"objects": listed, "more": page["IsTruncated"]}


def read_object(secrets: Secrets, connectors: Connectors, connector: str, key: str, offset: int) -> dict[str, Any]:
    """Returns up to 64 KiB of a text object from a byte offset; blocks. Raises as `list_objects`."""
    declared = connectors.get(connector)
    if declared is None:
        return _unknown(connectors)
    if not _inside(declared, key) or offset < 0:
        return OUTSIDE
    try:
        found = s3_client(declared, secrets).get_object(
            Bucket=declared["bucket"], Key=key, Range=f"bytes={offset}-{offset + READ_BYTES - 1}"
        )
        size = int(found.get("ContentRange", "").rpartition("/")[2] or found["ContentLength"])
        return text_part(found["Body"].read(READ_BYTES), offset, size)
    except CredentialsError as error:
        raise _unusable(connector, error) from error
    except failures() as error:
        return _failed(error)


def _inside(declared: Mapping[str, Any], key: str) -> bool:
    # Some stores resolve `..` as file systems do.
    return {".", ".."}.isdisjoint(key.split("/")) and may_read(declared, declared["bucket"], key)


def _unknown(connectors: Connectors) -> dict[str, Any]:
    return {"error": f"the step declares no such connector (declared: {', '.join(sorted(connectors)) or 'none'})"}


def _unusable(connector: str, error: CredentialsError) -> StepFailed:
    may_pass = isinstance(error, RoleError)
    cause = ROLE_NOT_ASSUMED if may_pass else SECRET_UNAVAILABLE
    return StepFailed(cause, f"connector '{connector}': {error}", final=not may_pass)


def _failed(error: Exception) -> dict[str, Any]:
    return {"error": code_of(error) or "the object storage cannot be reached"}
