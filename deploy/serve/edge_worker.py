"""One of several edge processes.

It reads its settings, and what it has inherited, from standard input and writes to standard output that it serves.
After that each byte on standard input asks for its metrics, and the end of standard input for its own end.
"""

import json
import os
import pickle
import signal
import sys
import threading
from functools import partial

from deploy.config.settings import Settings
from deploy.failures import CommandError
from deploy.serve.lifecycle import prepare_process
from deploy.serve.process_log import log_serving
from deploy.serve.prometheus import process_metrics
from deploy.serve.traces import recording_traces
from edge.shared_memory.share import ShareFiles
from telemetry import MetricsRegistry


def main() -> None:
    """Serves until SIGTERM, or until the parent process is gone."""
    settings: Settings
    files: ShareFiles
    settings, files, *to_backend = pickle.load(sys.stdin.buffer)  # noqa: S301 - what the parent wrote
    prepare_process(settings, "edge")
    metrics = MetricsRegistry()
    threading.Thread(target=_answer_parent, args=(metrics,), daemon=True).start()

    from deploy.serve.edge import serve_edge

    try:
        with metrics.registered(partial(process_metrics, "edge")), recording_traces(settings, "edge", metrics):
            serve_edge(settings, _on_ready, metrics, files, *to_backend)
    except CommandError as failed:
        _send(code=failed.code, message=failed.message)
        sys.exit(1)


def _on_ready(base_address: str) -> None:
    _send(base_address=base_address)
    log_serving(base_address=base_address)


def _send(**record: object) -> None:
    print(json.dumps(record), flush=True)


def _answer_parent(metrics: MetricsRegistry) -> None:
    requests = 0
    # Not through sys.stdin: a daemon thread must not hold its buffer's lock when the process ends.
    while received := os.read(sys.stdin.fileno(), 64):
        requests += len(received)
        _send(request=requests, families=metrics.collect())
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
