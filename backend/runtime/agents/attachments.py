"""Pictures and documents of a step that go to its model with the prompt, each examined before any call is paid."""

import asyncio
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final

from backend.resources.attachments.inspector import AttachmentRefusedError
from backend.runtime.agents.base import AttachmentServices, StepFailed, StepRequest
from backend.runtime.agents.failures import plain
from backend.runtime.agents.tools import open_regular, regular_files
from backend.services.workflows.attached_files import FILES_ROOT, INPUTS_ROOT, attach_patterns, matches

INVALID_ATTACHMENT: Final = "InvalidAttachment"
MOST_FILES: Final = 20
MOST_BYTES: Final = 14_000_000
"""Most bytes of all files: in base64 below the 20 MB of a request that large providers take."""
_READ_BYTES: Final = 2**20
_LONGEST_PATH: Final = 1_024


@dataclass(frozen=True)
class Attachment:
    """A file for a model: path, media type, SHA-256 in hexadecimal digits, and content."""

    path: str
    media_type: str
    sha256: str
    data: bytes = field(repr=False)


async def attached_files(request: StepRequest, services: AttachmentServices | None) -> list[Attachment]:
    """Returns the files that the agent attaches to its prompt, sorted by path.

    Raises:
        StepFailed: a pattern matches nothing, a file cannot be sent, or there are too many.
    """
    patterns = attach_patterns(request.agent)
    if not patterns:
        return []
    if services is None:
        raise StepFailed("InvalidAgent", "files cannot be attached here", final=True)
    sizes = await asyncio.to_thread(_chosen, request, patterns, services.redacted)
    if len(sizes) > MOST_FILES:
        raise _refused(f"{len(sizes):,} files match attach; a step may attach at most {MOST_FILES}")
    total = sum(sizes.values())
    if total > MOST_BYTES:
        raise _refused(f"the {len(sizes)} files of attach have {total:,} bytes; together they may have {MOST_BYTES:,}")
    return [await _examined(request, path, services) for path in sizes]


def _chosen(request: StepRequest, patterns: Sequence[str], redacted: Mapping[str, str]) -> Mapping[str, int]:
    """Returns the sizes of the chosen files by path, sorted by path."""
    present = dict(_present(request, {pattern.partition("/")[0] for pattern in patterns}))
    chosen: dict[str, int] = {}
    for pattern in patterns:
        found = {path: size for path, size in present.items() if matches(path, pattern)}
        root = pattern.partition("/")[0]
        if root in redacted:
            named = min(found, default=pattern)
            raise _refused(
                f"'{_readable_path(named)}' of attach is not sent to the model: the run's PII policy has mode redact "
                f"with stage {redacted[root]}, and pictures and documents cannot be searched for personal data"
            )
        if not found:
            raise _refused(f"no file matches '{pattern}' of attach")
        chosen |= found
    return dict(sorted(chosen.items()))


def _present(request: StepRequest, roots: AbstractSet[str]) -> Iterator[tuple[str, int]]:
    if INPUTS_ROOT in roots and request.inputs is not None:
        yield from regular_files(request.inputs, INPUTS_ROOT)
    if FILES_ROOT in roots:
        for step, folder in request.files.items():
            yield from regular_files(folder, f"{FILES_ROOT}/{step}")


async def _examined(request: StepRequest, path: str, services: AttachmentServices) -> Attachment:
    try:
        descriptor = await asyncio.to_thread(_open, request, path)
    except OSError as error:
        raise _refused(f"'{_readable_path(path)}' of attach cannot be read: {error.strerror}") from error
    try:
        examined = await services.examine(descriptor)
        data, digest = await asyncio.to_thread(_read, descriptor)
    except AttachmentRefusedError as error:
        raise _refused(f"'{_readable_path(path)}' of attach {error}") from None
    finally:
        os.close(descriptor)
    if digest != examined.sha256:
        raise _refused(f"'{_readable_path(path)}' of attach changed while it was read")
    return Attachment(_readable_path(path), examined.media_type, examined.sha256, data)


def _open(request: StepRequest, path: str) -> int:
    root, first, *parts = path.split("/")
    if root == FILES_ROOT:
        return open_regular(request.files[first], parts)
    assert request.inputs is not None
    return open_regular(request.inputs, [first, *parts])


def _read(descriptor: int) -> tuple[bytes, str]:
    """Returns the content of an open file, and its SHA-256."""
    parts: list[bytes] = []
    at = 0
    while at <= MOST_BYTES and (part := os.pread(descriptor, _READ_BYTES, at)):
        parts.append(part)
        at += len(part)
    data = b"".join(parts)
    return data, hashlib.sha256(data).hexdigest()


def _readable_path(path: str) -> str:
    """Returns a path as messages may quote it: text that can be stored, cut to `_LONGEST_PATH` characters."""
    return plain(path, _LONGEST_PATH)


def _refused(message: str) -> StepFailed:
    return StepFailed(INVALID_ATTACHMENT, message, final=True)
