"""A clock that steps, steps for its process alone."""

import os
import signal
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


_WAIT = """
import sys, threading, time
print(time.monotonic(), time.clock_gettime(time.CLOCK_BOOTTIME), flush=True)
for _ in sys.stdin:
    began = time.monotonic()
    time.sleep(0.2)
    threading.Event().wait(0.2)
    print(time.monotonic() - began, time.monotonic(), time.clock_gettime(time.CLOCK_BOOTTIME), flush=True)
"""


def test_a_suspension_holds_the_monotonic_clock_and_not_the_one_since_boot(tmp_path: Path) -> None:
    clock = SteppedClock(clock_library(tmp_path), tmp_path / "clock")
    with subprocess.Popen(
        [sys.executable, "-c", _WAIT],
        env={**os.environ, **clock.variables},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        monotonic, since_boot = map(float, process.stdout.readline().split())
        process.send_signal(signal.SIGSTOP)
        clock.suspend(60)
        process.send_signal(signal.SIGCONT)
        process.stdin.write("\n")
        process.stdin.close()
        waited, now, boot_now = map(float, process.stdout.readline().split())
        assert waited >= 0.4
        assert boot_now > since_boot
        assert round(((boot_now - since_boot) - (now - monotonic)) / 60) == 1
