"""A clock that steps, steps for its process alone."""

import os
import subprocess
import sys
import time
from pathlib import Path

from tests.support.stepped_clock import SteppedClock, clock_library

_TELL = """
import datetime, sys, time
for _ in sys.stdin:
    print(time.time(), datetime.datetime.now().timestamp(), time.monotonic(), flush=True)
"""


def test_a_step_moves_the_wall_clock_and_not_the_monotonic_one(tmp_path: Path) -> None:
    clock = SteppedClock(clock_library(tmp_path), tmp_path / "clock")
    with subprocess.Popen(
        [sys.executable, "-c", _TELL],
        env={**os.environ, **clock.variables},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for step in (0, 7200, -7200, 1.5, 0):
            clock.step(step)
            before, began = time.time(), time.monotonic()
            process.stdin.write("\n")
            process.stdin.flush()
            told, dated, monotonic = map(float, process.stdout.readline().split())
            assert before + step <= told <= dated + 0.001 <= time.time() + step + 0.001
            assert began <= monotonic <= time.monotonic()
