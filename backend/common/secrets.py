"""Secrets by name: their sources are settings, and their values are read at each use and never kept."""

import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ENVIRONMENT: Final = "env:"
FILE: Final = "file:"

NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")

_LARGEST_FILE_BYTES: Final = 64 * 1024


class SecretError(Exception):
    """A secret could not be read; the text names the secret, never its value or its source."""


@dataclass(frozen=True, slots=True, repr=False)
class Secrets:
    """The secrets of a deployment.

    Attributes:
        sources: By name, `env:VARIABLE` or `file:/path`; a file is read anew at each use, so it can be rotated.
        environment: The process's variables, as the entry point passes them.
    """

    sources: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def names(self) -> AbstractSet[str]:
        """The names of all secrets."""
        return self.sources.keys()

    def get(self, name: str) -> str:
        """Returns the secret's value, without the line end of a file.

        Raises:
            SecretError: there is no such secret, or its variable or file cannot be read or is empty.
        """
        source = self.sources.get(name)
        if source is None:
            raise SecretError(f"this deployment has no secret named '{name}': {how_to_set(name)}")
        if source.startswith(ENVIRONMENT):
            value = self.environment.get(source.removeprefix(ENVIRONMENT), "")
        else:
            value = _read(name, Path(source.removeprefix(FILE)))
        if not value:
            raise SecretError(f"the secret '{name}' is not set: what [secrets] of the settings names for it is empty")
        return value

    def __repr__(self) -> str:
        return f"Secrets({', '.join(sorted(self.sources))})"


def how_to_set(name: str) -> str:
    """Returns the remedy for a missing secret, as the second half of a sentence."""
    return f'name where it is kept in the settings, as `{name} = "env:VARIABLE"` below [secrets]'


def _read(name: str, path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST_FILE_BYTES + 1)
    except OSError as error:
        raise SecretError(f"the secret '{name}' cannot be read: {error.strerror}") from None
    if len(content) > _LARGEST_FILE_BYTES:
        raise SecretError(f"the secret '{name}' has more than {_LARGEST_FILE_BYTES:,} bytes")
    try:
        return content.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise SecretError(f"the secret '{name}' is not UTF-8 text") from None
