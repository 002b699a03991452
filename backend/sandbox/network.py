"""What a step reads to find and trust other machines, where it may reach the network."""

import os
from pathlib import Path

from backend.confined.libraries import NETWORK_FILES


def readable_files() -> list[tuple[Path, str]]:
    """What a step needs to name and trust other machines, as (where it lies, where the step looks for it)."""
    return [(Path(os.path.realpath(path)), path) for path in NETWORK_FILES if Path(path).exists()]
