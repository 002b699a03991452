"""Files and processes outside of a step, as targets of attacks."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A file of another run or of the service that all users may read and write."""
    folder = tmp_path / "another-run"
    folder.mkdir()
    file = folder / "outputs.csv"
    file.write_text("secret")
    file.chmod(0o666)
    for parent in (folder, *list(folder.parents)[:3]):
        if parent.stat().st_uid == os.getuid() and parent.is_relative_to(tmp_path.parent.parent):
            parent.chmod(parent.stat().st_mode | 0o755)
    return file


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process outside of the step."""
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()
