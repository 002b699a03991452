"""Reads requirements as `pandas==2.3.*` and refuses whatever else an installer would take: URLs, paths, options."""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

MOST_REQUIREMENTS: Final = 200
LONGEST_REQUIREMENT: Final = 300
LARGEST_FILE_BYTES: Final = 65_536

_PINNED: Final = re.compile(
    r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,100}[A-Za-z0-9])?==[1-9][0-9]{0,8}(?:\.(?:0|[1-9][0-9]{0,8})){0,5}(?:\.\*)?"
)
"""A release or all of its patches, in the standard spelling as it stands."""
_LONGEST_SHOWN: Final = 60
_MUST_BE: Final = "must be a requirement as pandas==2.3.*"
_NOT_ALLOWED: Final = "must name a package of the index: no URL, path or option"
_HASH: Final = re.compile(r"(?:^|\s)--hash\b")
_NO_HASH: Final = (
    "must have no --hash: the lock of the environment has the hashes that the index gives for its packages"
)
_COMMENT: Final = re.compile(r"(^|\s)#.*$")


class NumberedRequirement(NamedTuple):
    """A requirement of a file, and the line that it begins in."""

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
    # What is imported here takes as long to import as everything else that reads manifests.
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
    """Yields the lines of a requirements file that hold something, without comments, continued lines joined."""
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
