"""One of several edge processes: gets its settings on standard input, and says on standard output that it serves.

After that each byte on standard input asks for its metrics, and the end of it for its own end.
"""

import json
import os
import pickle
import signal
import sys
import threading
from functools import partial

from deploy.cli.failures import CommandFailed
from deploy.config.settings import Settings
from deploy.serve.lifecycle import prepare_process
from deploy.serve.metrics import Metrics, of_process


def main() -> None:
    """Serve until SIGTERM, or until the parent is gone."""
    settings: Settings = pickle.load(sys.stdin.buffer)  # noqa: S301 - what the parent wrote
    prepare_process(settings)
    metrics = Metrics()
    threading.Thread(target=_heed_parent, args=(metrics,), daemon=True).start()

    from deploy.serve.edge import serve_edge

    try:
        with metrics.told_by(partial(of_process, "edge")):
            serve_edge(settings, lambda base_address: _say(base_address=base_address), metrics)
    except CommandFailed as failed:
        _say(code=failed.code, message=failed.message)
        sys.exit(1)


def _say(**record: object) -> None:
    print(json.dumps(record), flush=True)


def _heed_parent(metrics: Metrics) -> None:
    asked = 0
    # Not by the buffer of standard input, which a daemon thread may not hold at the end of the process.
    while questions := os.read(sys.stdin.fileno(), 64):
        asked += len(questions)
        _say(question=asked, families=metrics.families())
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
