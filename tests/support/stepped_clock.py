"""Wall clocks that go wrong: each process gets one of its own, while the machine's stays as it is."""

import shutil
import struct
import subprocess
from pathlib import Path
from typing import Final

import pytest

_SOURCE: Final = Path(__file__).with_suffix(".c")
_NS: Final = 1_000_000_000


class SteppedClock:
    """The clock of a process that is started with `variables`."""

    def __init__(self, library: Path, file: Path) -> None:
        self._file = file
        self._file.write_bytes(struct.pack("q", 0))
        self._file.chmod(0o644)
        self.variables: Final = {"LD_PRELOAD": str(library), "STEPPED_CLOCK": str(file)}

    def step(self, seconds: float) -> None:
        """Sets it so many seconds ahead of the machine's, or behind it."""
        with self._file.open("r+b") as file:
            file.write(struct.pack("q", round(seconds * _NS)))


def clock_library(folder: Path) -> Path:
    """What processes load to have a clock of their own, compiled into the folder."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler (Debian: apt-get install gcc libc6-dev)")
    library = folder / "stepped_clock.so"
    options = ["-O2", "-Wall", "-Werror", "-shared", "-fPIC"]
    subprocess.run([compiler, *options, "-o", library, _SOURCE, "-ldl", "-pthread"], check=True, timeout=120)
    return library
