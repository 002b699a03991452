"""Compares the service with other servers of workflows on this machine: `make bench-peers`.

Each peer is measured against a service that is started with it, on the same core, by the same load from another core.
"""

import argparse
import signal
import tempfile
from pathlib import Path

from benchmarks.peers import airflow, langgraph, prefect, service
from benchmarks.peers.comparison import Subject, table
from benchmarks.postgresql import SERVER

_QUICK_SECONDS = 0.05
_OTHERS = {"prefect": prefect, "airflow": airflow}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--with", dest="others", action="append", choices=_OTHERS, default=[], help="a further peer")
    arguments.add_argument("--only", action="store_true", help="the further peers, without LangGraph")
    arguments.add_argument("--server", default=SERVER, help="PostgreSQL on which Prefect and Airflow get a database")
    arguments.add_argument("--rounds", type=int, default=5, help="of each measure (5)")
    arguments.add_argument("--seconds", type=float, default=3.0, help="length of one round of load (3)")
    arguments.add_argument(
        "--quick", action="store_true", help="a trial with the service as its own peer, nothing else"
    )
    given = arguments.parse_args()
    # Peers have sessions of their own, and would go on if this process ended without cleaning up.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if given.quick:
        with service.running(_QUICK_SECONDS) as own:
            _print(own, own, 1, _QUICK_SECONDS)
        return
    first = () if given.only else (langgraph,)
    for peer in (*first, *(_OTHERS[name] for name in given.others)):
        with (
            tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
            peer.running(Path(folder), given.server) as subject,
            service.running(given.seconds) as own,
        ):
            print(f"\n{peer.NAME}: {', '.join(peer.REQUIREMENTS)}\n")
            _print(own, subject, given.rounds, given.seconds)


def _print(own: Subject, peer: Subject, rounds: int, seconds: float) -> None:
    for line in table(own, peer, rounds=rounds, seconds=seconds):
        print(line, flush=True)


if __name__ == "__main__":
    main()
