"""A day's load in an hour: `make soak ARGS="--minutes 60 --database postgresql"`."""

import argparse
import signal
import sys
import tempfile
from pathlib import Path

import pytest

from tests.soak.soak import DAY_OF_CALLS, DAY_OF_RUNS, Extent, run_soak
from tests.soak.stage import POSTGRESQL, SQLITE


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--minutes", type=float, default=60.0)
    arguments.add_argument(
        "--scale", type=float, default=1.0, help=f"1 is {DAY_OF_RUNS:,} runs of {DAY_OF_CALLS:,} calls in an hour"
    )
    arguments.add_argument("--database", choices=(SQLITE, POSTGRESQL), action="append", help="default: both in turn")
    given = arguments.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):
        # An interrupted soak ends every process that it started.
        signal.signal(number, lambda *_: sys.exit(1))
    code = 0
    for database in given.database or (SQLITE, POSTGRESQL):
        with tempfile.TemporaryDirectory(prefix="workflow-api-soak-") as made:
            try:
                outcome = run_soak(Path(made), database, Extent(given.minutes * 60, given.scale))
            except pytest.skip.Exception as missing:
                sys.exit(f"cannot run here: {missing}")
        sys.stdout.write(f"\n== {database}, {given.minutes:g} minutes at scale {given.scale:g}\n{outcome}\n")
        for role, log in outcome.logs.items():
            sys.stdout.writelines(f"{role}: {line}\n" for line in log.splitlines()[-10:])
        sys.stdout.flush()
        code = max(code, outcome.code)
    return code


if __name__ == "__main__":
    sys.exit(main())
