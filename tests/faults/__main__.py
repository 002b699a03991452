"""The fault campaign at length: `make faults ARGS="--seed 7 --operations 10000 --faults 100"`."""

import argparse
import random
import signal
import sys
import tempfile
from pathlib import Path
from typing import Final

import pytest

from tests.faults.campaign import run_campaign
from tests.faults.plan import EMBEDDED, EMBEDDED_S3, FOLDER, MACHINES, S3, Extent

# Of the operations and of the faults.
_SHARES: Final = {MACHINES: 0.4, S3: 0.35, FOLDER: 0.09, EMBEDDED: 0.07, EMBEDDED_S3: 0.09}


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6), help="repeats a plan")
    arguments.add_argument("--operations", type=int, default=10_000)
    arguments.add_argument("--faults", type=int, default=100)
    arguments.add_argument("--rate", type=float, default=12.0, help="most operations a second")
    arguments.add_argument("--pace", type=float, default=1.0, help="outages last so many times as long")
    arguments.add_argument(
        "--store", choices=tuple(_SHARES), action="append", help="where objects are stored; default: each in turn"
    )
    arguments.add_argument("--keep", type=Path, help="folder for the journals and the logs of the parts")
    given = arguments.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):
        # An interrupted campaign ends every process that it started.
        signal.signal(number, lambda *_: sys.exit(1))
    stores = given.store or list(_SHARES)
    whole = sum(_SHARES[store] for store in stores)
    sys.stdout.write(f"seed {given.seed}\n")
    code = 0
    for store in stores:
        share = _SHARES[store] / whole
        extent = Extent(round(given.operations * share), round(given.faults * share), given.rate, given.pace)
        with tempfile.TemporaryDirectory(prefix="workflow-api-journal-") as made:
            folder = Path(made) if given.keep is None else given.keep / store
            folder.mkdir(parents=True, exist_ok=True)
            try:
                outcome = run_campaign(folder, given.seed, store, extent)
            except pytest.skip.Exception as missing:
                sys.exit(f"cannot run here: {missing}")
            for name, log in outcome.logs.items() if given.keep is not None else ():
                (folder / f"{name}.log").write_text(log)
        sys.stdout.write(f"\n== objects in {store}\n{outcome}\n")
        sys.stdout.flush()
        code = max(code, outcome.code)
    return code


if __name__ == "__main__":
    sys.exit(main())
