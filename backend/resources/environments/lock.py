"""Locks of environments: the exact packages, each with hashes, the requirements behind them, and the tag of wheels."""

import hashlib
import re
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

LARGEST_LOCK_BYTES: Final = 2 * 2**20
MOST_PACKAGES: Final = 500

_PACKAGE: Final = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)", re.MULTILINE)

MOST_REQUIREMENTS: Final = 200
LONGEST_REQUIREMENT: Final = 300
LARGEST_FILE_BYTES: Final = 65_536

_PINNED: Final = re.compile(
    r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,100}[A-Za-z0-9])?==[1-9][0-9]{0,8}(?:\.(?:0|[1-9][0-9]{0,8})){0,5}(?:\.\*)?"
)
"""`==` and a release, or `==` and all patches of a release, in the standard spelling."""
_LONGEST_SHOWN: Final = 60
_MUST_BE: Final = "must be a requirement as pandas==2.3.*"
_NOT_ALLOWED: Final = "must name a package of the index: no URL, path or option"
_HASH: Final = re.compile(r"(?:^|\s)--hash\b")
_NO_HASH: Final = (
    "must have no --hash: the lock of the environment has the hashes that the index gives for its packages"
)
_COMMENT: Final = re.compile(r"(^|\s)#.*$")


@dataclass(frozen=True, slots=True)
class Lock:
    """A requirements file with version and hashes of each package, including packages that others need."""

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


class NumberedRequirement(NamedTuple):
    """A requirement of a file, and the number of the line where it begins."""

    line: int
    text: str


def normalised_requirement(text: str) -> str:
    """Returns a requirement in its standard spelling; raises ValueError that says what is allowed."""
    if _HASH.search(text):
        raise ValueError(_NO_HASH)
    if not 1 <= len(text) <= LONGEST_REQUIREMENT:
        raise ValueError(f"must have 1 to {LONGEST_REQUIREMENT} characters")
    stripped = text.strip()
    if stripped.startswith(("-", ".", "/")) or "://" in stripped:
        raise ValueError(_NOT_ALLOWED)
    if _PINNED.fullmatch(text):
        return text
    # This import takes as long as all others that reading manifests needs.
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        requirement = Requirement(stripped)
    except InvalidRequirement as error:
        # An address may hold a password.
        shown = "" if "@" in stripped or "://" in stripped else f", not {stripped[:_LONGEST_SHOWN]!r}"
        raise ValueError(f"{_MUST_BE}{shown}: {_first_line(error)}") from None
    if requirement.url is not None:
        raise ValueError(_NOT_ALLOWED)
    return str(requirement)


def lines_of_file(text: str) -> Iterator[NumberedRequirement]:
    """Yields the non-empty lines of a requirements file, without comments, continued lines joined."""
    begun, parts = 0, list[str]()
    for number, line in enumerate(text.splitlines(), start=1):
        content = _COMMENT.sub("", line).strip()
        begun = begun if parts else number
        parts.append(content.removesuffix("\\").strip())
        if content.endswith("\\"):
            continue
        if joined := " ".join(part for part in parts if part):
            yield NumberedRequirement(begun, joined)
        parts.clear()
    if joined := " ".join(part for part in parts if part):
        yield NumberedRequirement(begun, joined)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].strip()


def interpreter_tag() -> str:
    """Returns the interpreter of steps, for which packages are built, as `cpython-3.11-linux-x86_64`."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return f"{sys.implementation.name}-{version}-{sysconfig.get_platform()}"
