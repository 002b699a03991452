"""One of several edge processes: gets its settings on standard input, and says on standard output that it serves."""

import json
import os
import pickle
import signal
import sys
import threading

from deploy.failures import CommandFailed
from deploy.lifecycle import prepare_process
from deploy.settings import Settings


def main() -> None:
    """Serve until SIGTERM, or until the parent is gone."""
    settings: Settings = pickle.load(sys.stdin.buffer)  # noqa: S301 - what the parent wrote
    prepare_process(settings)
    threading.Thread(target=_end_with_parent, daemon=True).start()

    from deploy.edge_part import serve_edge

    try:
        serve_edge(settings, lambda base_address: _say(base_address=base_address))
    except CommandFailed as failed:
        _say(code=failed.code, message=failed.message)
        sys.exit(1)


def _say(**record: str) -> None:
    print(json.dumps(record), flush=True)


def _end_with_parent() -> None:
    os.read(sys.stdin.fileno(), 1)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
