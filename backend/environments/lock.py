"""A lock: the exact packages of an environment, each with the hashes of its files."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

LARGEST_LOCK_BYTES: Final = 2 * 2**20
MOST_PACKAGES: Final = 500

_PACKAGE: Final = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Lock:
    """A requirements file with a version and hashes for each package, those that others need included."""

    text: str

    @property
    def digest(self) -> str:
        """SHA-256 of the text, in hexadecimal digits."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def versions(self) -> list[str]:
        """The packages as `pandas==2.3.3`, in the order of the text."""
        return [f"{name}=={version}" for name, version in _PACKAGE.findall(self.text)]


class PackagesError(Exception):
    """Packages cannot be locked or built; the message is for a person and holds no credentials."""


def lock_digest(definition: Mapping[str, Any]) -> str | None:
    """Returns the digest of an environment's lock; None if it has no packages."""
    python = definition.get("python")
    return python["lock"] if python else None
