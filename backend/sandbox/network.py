"""Files that a step with network needs."""

import os
from pathlib import Path

from backend.confined.libraries import NETWORK_FILES


def readable_files() -> list[tuple[Path, str]]:
    """Returns the files for resolving and verifying other machines, each with the path at which a step opens it."""
    return [(Path(os.path.realpath(path)), path) for path in NETWORK_FILES if Path(path).exists()]
