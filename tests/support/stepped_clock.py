"""Clocks that go wrong: each process gets its own wall and monotonic clock, while the machine's stay as they are."""

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
        self._step = self._suspended = 0
        self._file.write_bytes(struct.pack("qq", 0, 0))
        self._file.chmod(0o644)
        self.variables: Final = {"LD_PRELOAD": str(library), "STEPPED_CLOCK": str(file)}

    def step(self, seconds: float) -> None:
        """Sets the wall clock so many seconds ahead of the machine's, or behind it."""
        self._step = round(seconds * _NS)
        self._write()

    def suspend(self, seconds: float) -> None:
        """Adds to the time for which the machine was suspended: CLOCK_MONOTONIC falls behind CLOCK_BOOTTIME.

        Call it while the process is stopped: no monotonic clock steps back for a process that runs.
        """
        self._suspended += round(seconds * _NS)
        self._write()

    def _write(self) -> None:
        with self._file.open("r+b") as file:
            file.write(struct.pack("qq", self._step, self._suspended))


def clock_library(folder: Path) -> Path:
    """Compiles the library that processes load to have clocks of their own into the folder."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler (Debian: apt-get install gcc libc6-dev)")
    library = folder / "stepped_clock.so"
    options = ["-O2", "-Wall", "-Werror", "-shared", "-fPIC"]
    subprocess.run([compiler, *options, "-o", library, _SOURCE, "-ldl", "-pthread"], check=True, timeout=120)
    return library
