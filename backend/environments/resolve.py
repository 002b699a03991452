"""Resolves requirements to a lock."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from backend.environments.lock import LARGEST_LOCK_BYTES, MOST_PACKAGES, Lock, PackagesError
from backend.environments.uv import MEBIBYTE, Uv
from backend.settings import PackageSettings

# Descriptions of packages, and the wheels that an index does not describe.
_MOST_BYTES: Final = 512 * MEBIBYTE
_COMMAND: Final = ("compile", "-", "--generate-hashes", "--only-binary", ":all:", "--no-annotate", "--no-header")
_WITHOUT_ADDRESSES: Final = ("--no-emit-index-url", "--no-emit-find-links")


def resolve(uv: Uv, settings: PackageSettings, requirements: Sequence[str], scratch: Path) -> Lock:
    """Returns the newest packages that satisfy the requirements and one another, as wheels for this interpreter.

    Raises:
        PackagesError: there are none, or too many; with the resolver's message.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="resolve-", dir=scratch) as own:
        text = uv.run(
            (*_COMMAND, *_WITHOUT_ADDRESSES),
            text="".join(f"{one}\n" for one in requirements),
            own=Path(own),
            seconds=settings.resolve_seconds,
            most_bytes=_MOST_BYTES,
        )
    lock = Lock(text)
    if len(text.encode()) > LARGEST_LOCK_BYTES:
        raise PackagesError(f"the lock has more than {LARGEST_LOCK_BYTES:,} bytes")
    if len(lock.versions) > MOST_PACKAGES:
        raise PackagesError(f"{len(lock.versions):,} packages are needed, and at most {MOST_PACKAGES:,} are allowed")
    return lock
