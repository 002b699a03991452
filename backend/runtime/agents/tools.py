"""The tools that an agent of type `llm` may declare, as the model sees them, and the bounded reads that they make."""

import asyncio
import codecs
import os
import stat
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from backend.common.secrets import Secrets
from backend.resources.connectors.object_storage import (
    CredentialsError,
    RoleError,
    code_of,
    failures,
    list_page,
    s3_client,
)
from backend.resources.models import SECRET_UNAVAILABLE
from backend.runtime.agents.base import StepFailed, StepRequest
from backend.services.workflows.parameters import may_read

ToolResult = dict[str, Any]
"""Result of a tool, as the model gets it: JSON, with the member `error` for a failure."""

MOST_LISTED: Final = 1_000
READ_BYTES: Final = 64 * 1024

NOT_THERE: Final = {"error": "there is no such file"}

OUTSIDE: Final = {"error": "that lies outside of what the connector may read"}
ROLE_NOT_ASSUMED: Final = "RoleNotAssumed"

Connectors = Mapping[str, Mapping[str, Any]]


def list_folder_files(folders: Mapping[str, Path], prefix: str) -> ToolResult:
    """Returns path and size of regular files whose path begins with `prefix`; a path's first part names its folder."""
    found = sorted(
        (path, size)
        for name, root in folders.items()
        for path, size in regular_files(root, name)
        if path.startswith(prefix)
    )
    listed = [{"path": path, "size_bytes": size} for path, size in found[:MOST_LISTED]]
    return {"files": listed, "not_listed": len(found) - len(listed)}


def read_folder_file(folders: Mapping[str, Path], path: str, offset: int) -> ToolResult:
    """Returns up to 64 KiB of a text file from a byte offset; see `text_part`."""
    first, _, rest = path.partition("/")
    root = folders.get(first)
    parts = rest.split("/")
    if root is None or not {"", ".", ".."}.isdisjoint(parts) or "\0" in rest or offset < 0:
        return NOT_THERE
    try:
        file = open_regular(root, parts)
    except (OSError, UnicodeEncodeError):
        return NOT_THERE
    with os.fdopen(file, "rb") as opened:
        size = os.fstat(file).st_size
        # A model may name an offset that no file can have.
        opened.seek(min(offset, size))
        return text_part(opened.read(READ_BYTES), offset, size)


def text_part(data: bytes, offset: int, size: int) -> ToolResult:
    """Returns a part of a file from a byte offset as text, without half characters, and the offset of the next part."""
    if b"\0" in data:
        return {"error": "this is not a text file", "size_bytes": size}
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    ends = offset + len(data) >= size
    text = decoder.decode(data, final=ends)
    following = offset + len(data) - len(decoder.getstate()[0])
    return {"text": text, "size_bytes": size, "next_offset": None if ends else following}


def regular_files(root: Path, name: str) -> Iterator[tuple[str, int]]:
    """Yields path, which begins with `name`, and size of each regular file below a folder; follows no link."""
    for folder, _, files in os.walk(root):
        for file in files:
            path = Path(folder, file)
            status = path.lstat()
            if stat.S_ISREG(status.st_mode):
                yield f"{name}/{path.relative_to(root).as_posix()}", status.st_size


def open_regular(root: Path, parts: list[str]) -> int:
    """Opens a regular file part by part, so that no link on the way is followed.

    Raises:
        OSError: it does not exist, or is a link or another irregular file.
    """
    at = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        for part in parts[:-1]:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
            os.close(at)
            at = inner
        # Opening a pipe would wait for its other end.
        file = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at)
    finally:
        os.close(at)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise IsADirectoryError(parts[-1])
    return file


def list_objects(secrets: Secrets, connectors: Connectors, connector: str, prefix: str) -> ToolResult:
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


def read_object(secrets: Secrets, connectors: Connectors, connector: str, key: str, offset: int) -> ToolResult:
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


def _unknown(connectors: Connectors) -> ToolResult:
    return {"error": f"the step declares no such connector (declared: {', '.join(sorted(connectors)) or 'none'})"}


def _unusable(connector: str, error: CredentialsError) -> StepFailed:
    is_transient = isinstance(error, RoleError)
    cause = ROLE_NOT_ASSUMED if is_transient else SECRET_UNAVAILABLE
    return StepFailed(cause, f"connector '{connector}': {error}", final=not is_transient)


def _failed(error: Exception) -> ToolResult:
    return {"error": code_of(error) or "the object storage cannot be reached"}


Tool = Callable[..., Awaitable[ToolResult]]


Sweep = Callable[[Any], Awaitable[Any]]
"""Returns a JSON value as the PII policy lets a model see it."""


def tools_of(declared: Iterable[str], request: StepRequest, secrets: Secrets, sweep: Sweep) -> list[Tool]:
    """Returns the functions of the declared tools; the model sees their names, parameters and docstrings.

    `secrets` are for the connectors that name one. `sweep` is for their objects, which nothing has swept before.
    """
    makers: dict[str, Callable[[StepRequest], Iterator[Tool]]] = {
        "inputs": _inputs,
        "files": _files,
        "connectors": lambda request: _connectors(request, secrets, sweep),
    }
    return [tool for name in declared for tool in makers[name](request)]


def _inputs(request: StepRequest) -> Iterator[Tool]:
    root = request.inputs
    folders = {} if root is None else {path.name: path for path in root.iterdir()}

    async def list_inputs(prefix: str = "") -> ToolResult:
        """Lists the input files of this run whose paths begin with a prefix, with their sizes."""
        return await asyncio.to_thread(list_folder_files, folders, prefix)

    async def read_input(path: str, offset: int = 0) -> ToolResult:
        """Reads a part of an input file from a byte offset; next_offset is null at its end."""
        return await asyncio.to_thread(read_folder_file, folders, path, offset)

    yield from (list_inputs, read_input)


def _files(request: StepRequest) -> Iterator[Tool]:
    async def list_files(prefix: str = "") -> ToolResult:
        """Lists the files that earlier steps left whose paths begin with a prefix, with their sizes."""
        return await asyncio.to_thread(list_folder_files, request.files, prefix)

    async def read_file(path: str, offset: int = 0) -> ToolResult:
        """Reads a part of a file that an earlier step left from a byte offset; next_offset is null at its end."""
        return await asyncio.to_thread(read_folder_file, request.files, path, offset)

    yield from (list_files, read_file)


def _connectors(request: StepRequest, secrets: Secrets, sweep: Sweep) -> Iterator[Tool]:
    connectors = request.connectors

    async def list_connector_objects(connector: str, prefix: str = "") -> ToolResult:
        """Lists the objects of a connector under a prefix, with their sizes; without one, the prefixes it allows."""
        result = await asyncio.to_thread(list_objects, secrets, connectors, connector, prefix)
        if objects := result.get("objects"):
            keys = await sweep([each["key"] for each in objects])
            result["objects"] = [{**each, "key": key} for each, key in zip(objects, keys, strict=True)]
        return result

    async def read_connector_object(connector: str, key: str, offset: int = 0) -> ToolResult:
        """Reads a part of an object of a connector from a byte offset; next_offset is null at its end."""
        result = await asyncio.to_thread(read_object, secrets, connectors, connector, key, offset)
        if result.get("text"):
            result["text"] = await sweep(result["text"])
        return result

    yield from (list_connector_objects, read_connector_object)
