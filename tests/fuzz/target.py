"""What a fuzzing target is: a check that holds for any bytes, and its seed inputs."""

import base64
import importlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

TARGETS: Final = (
    "json_bodies",
    "json_values",
    "byte_ranges",
    "cursors",
    "addresses",
    "manifests",
    "manifest_fields",
    "slow_texts",
)
"""The modules of this folder that hold a `TARGET`."""

DEEPEST_CALLS: Final = 3_000
"""The recursion limit that the service sets itself, for bodies as deep as the contract allows."""

KEPT: Final = Path(__file__).with_name("kept")


@dataclass(frozen=True)
class Target:
    """One part of the service that reads what others wrote.

    `check` raises where the part does not do as its oracle says. `seeds` are inputs to begin with, `words` pieces worth
    inserting, `longest` the most bytes a fuzzer tries.
    """

    name: str
    check: Callable[[bytes], None]
    seeds: Callable[[], Iterable[bytes]]
    words: tuple[bytes, ...]
    longest: int

    def kept(self) -> Iterator[Path]:
        """The inputs that once failed."""
        return iter(sorted((KEPT / self.name).glob("*")))

    def fill(self, corpus: Path) -> None:
        """Writes seeds and kept inputs into a folder."""
        corpus.mkdir(parents=True, exist_ok=True)
        for number, seed in enumerate((*self.seeds(), *(path.read_bytes() for path in self.kept()))):
            (corpus / f"seed-{number:03}").write_bytes(seed)

    def dictionary(self) -> str:
        """The words in the form that libFuzzer reads."""
        return "".join('"' + "".join(f"\\x{byte:02x}" for byte in word) + '"\n' for word in self.words)


def load(name: str) -> Target:
    """The target of a module of this folder."""
    return cast("Target", importlib.import_module(f"tests.fuzz.{name}").TARGET)


def shown(data: bytes) -> str:
    """An input for a person, and in a form that loses nothing."""
    return f"{data!r}\nin Base64: {base64.b64encode(data).decode()}"
