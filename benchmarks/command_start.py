"""Measures how long `workflow-api run` takes until its first step's code runs, and `serve` until it is ready.

`python -m benchmarks.command_start` measures this checkout; with `--command` several installations alternately, so that
their ratios can be compared. Every command runs once before it is measured, to fill its cache.
"""

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_WORKFLOW = """
kind: Agent
name: clock
type: python
code: |
  import time
  BEGAN = time.monotonic()
  {imports}
  def run(context):
      return BEGAN
---
kind: Workflow
name: Time
steps: [{{step: read, agent: clock, environment: measured}}]
result: {{step: read}}
---
kind: Environment
name: measured
{python}
"""
_PLAIN = _WORKFLOW.format(imports="", python="")
_PANDAS = _WORKFLOW.format(
    imports="import pandas", python='python: {packages: ["pandas==2.3.*", "matplotlib==3.10.*"], preload: [pandas]}'
)


@dataclass(frozen=True)
class Measurement:
    """One start: milliseconds until the awaited event, and processor time of the whole command, its steps included."""

    wall: float
    cpu: float


def run(command: str, folder: Path, manifest: str) -> Measurement:
    """Runs a workflow whose result is the time at which the first line of its step ran."""
    file = folder / "workflow.yaml"
    file.write_text(manifest)
    began = time.monotonic()
    ended, cpu = _ended(_started(folder, command, "run", str(file)))
    return Measurement((float(ended) - began) * 1000, cpu)


def serve(command: str, folder: Path) -> Measurement:
    """Starts a service with the data of an earlier one, and ends it once it is ready."""
    began = time.monotonic()
    addresses = ("--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0")
    process = _started(folder, command, "serve", "--data", str(folder / "data"), *addresses, "--json")
    assert process.stdout is not None
    process.stdout.readline()
    wall = (time.monotonic() - began) * 1000
    process.send_signal(signal.SIGTERM)
    return Measurement(wall, _ended(process)[1])


def _started(folder: Path, *command: str) -> "subprocess.Popen[str]":
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}  # noqa: TID251 - a command inherits it
    return subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )


def _ended(process: "subprocess.Popen[str]") -> tuple[str, float]:
    """Returns the whole output of a process, and its processor time in milliseconds."""
    assert process.stdout is not None
    text = process.stdout.read()
    process.stdout.close()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in {0, -signal.SIGTERM}:
        raise RuntimeError(f"the command ended with {process.returncode}")
    return text, (used.ru_utime + used.ru_stime) * 1000


def rows(commands: Sequence[str], number: int, *, packages: bool) -> Iterator[str]:
    """Yields the rows of the table, with ratios to the first command."""
    kinds: dict[str, Callable[[str, Path], Measurement]] = {
        "run, until its first step": lambda command, folder: run(command, folder, _PLAIN),
        "serve, until it is ready": serve,
    }
    if packages:
        kinds["run with pandas, until its first step"] = lambda command, folder: run(command, folder, _PANDAS)
    for kind, measure in kinds.items():
        with tempfile.TemporaryDirectory() as name:
            folders = [Path(name) / str(number) for number, _ in enumerate(commands)]
            found: list[list[Measurement]] = [[] for _ in commands]
            for command, folder in zip(commands, folders, strict=True):
                folder.mkdir()
                measure(command, folder)
            for _ in range(number):
                for command, folder, measured in zip(commands, folders, found, strict=True):
                    measured.append(measure(command, folder))
        first = statistics.median(each.wall for each in found[0])
        for command, measured in zip(commands, found, strict=True):
            walls = sorted(each.wall for each in measured)
            wall, cpu = statistics.median(walls), statistics.median(each.cpu for each in measured)
            spread = f"{walls[len(walls) // 10]:.0f} to {walls[-1 - len(walls) // 10]:.0f}"
            yield f"| {kind} | {command} | {wall:.0f} | {spread} | {wall / first:.2f} | {cpu:.0f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    own = str(Path(sys.executable).parent / "workflow-api")
    parser.add_argument("--command", action="append", help="an installed workflow-api; repeat to compare")
    parser.add_argument("--number", type=int, default=15, help="of starts of each")
    parser.add_argument("--packages", action="store_true", help="also with pandas, which is downloaded for it")
    parser.add_argument("--quick", action="store_true", help="a trial")
    given = parser.parse_args()
    print("| start | command | ms | 80 % of them | of the first | CPU ms |\n|---|---|---|---|---|---|")
    for row in rows(given.command or [own], 1 if given.quick else given.number, packages=given.packages):
        print(row, flush=True)


if __name__ == "__main__":
    main()
