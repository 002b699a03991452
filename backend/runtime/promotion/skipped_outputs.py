"""The warning about entries of a step's folders that are left out (contract 25.14)."""

from collections.abc import Mapping

from backend.sandbox.inside.protocol import DEVICE, OVER_DIRECTORIES, OVER_FILES, OVER_LEVELS, PIPE, SOCKET, SYMLINK
from backend.settings import OutputLimits


def skipped_warning(step: str, skipped: Mapping[str, int], limits: OutputLimits) -> str:
    """Returns a warning that counts, by kind, the entries that did not become outputs."""
    words = {
        SYMLINK: "symbolic links",
        PIPE: "named pipes",
        SOCKET: "sockets",
        DEVICE: "devices",
        OVER_FILES: f"over the limit of {limits.files:,} files",
        OVER_DIRECTORIES: f"over the limit of {limits.directories:,} directories",
        OVER_LEVELS: f"more than {limits.levels} directories deep",
    }
    counts = ", ".join(f"{skipped[kind]} {what}" for kind, what in words.items() if kind in skipped)
    return f"Step '{step}' left files that are no outputs: {counts}."
