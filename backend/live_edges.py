"""The edges that watch this process's backend, for those who look at the health of the deployment."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from backend.clock import Clock
from contract.times import milliseconds_of
from workflow_api.v1.edge_pb2 import EdgeProcess


class LiveEdge(NamedTuple):
    """An edge, and how many milliseconds its clock is ahead of the deployment's."""

    process_id: str
    host: str
    pid: int
    release: str
    started_at: int
    clock_ahead: int


class LiveEdges:
    """Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._edges: dict[str, LiveEdge] = {}

    @property
    def present(self) -> list[LiveEdge]:
        """Those that watch now."""
        with self._lock:
            return list(self._edges.values())

    @contextmanager
    def watching(self, process: EdgeProcess) -> Iterator[None]:
        """Counts an edge as one that watches; one of an earlier release does not say which it is."""
        edge = LiveEdge(
            process.process_id,
            process.host,
            process.pid,
            process.release,
            milliseconds_of(process.started_at),
            milliseconds_of(process.sent_at) - self._clock(),
        )
        if edge.process_id:
            with self._lock:
                self._edges[edge.process_id] = edge
        try:
            yield
        finally:
            with self._lock:
                # A stream that followed this one may have counted it anew.
                if self._edges.get(edge.process_id) is edge:
                    del self._edges[edge.process_id]
