"""Limits of one validation."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class SchemaBounds:
    """Processor time and memory of one validation."""

    cpu_seconds: float = 5.0
    memory_mb: int = 256

    def __str__(self) -> str:
        return f"{self.cpu_seconds:g} seconds of processor time and {self.memory_mb} MB of memory"


CODE_BOUNDS: Final = SchemaBounds(cpu_seconds=5.0, memory_mb=512)
"""Bounds of compiling one text of Python: twice what the densest file of 1 MiB takes, and ordinary code of 8 MiB."""
