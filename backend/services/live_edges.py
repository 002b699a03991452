"""Edges that watch this process's backend, for the health of the deployment."""

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from backend.common.clock import Clock
from contract.times import milliseconds_of
from workflow_api.v1.edge_pb2 import EdgeProcess, HandshakeRequest


class LiveEdge(NamedTuple):
    """An edge, and how many milliseconds its clock is ahead of the deployment's.

    `unusable_backends` is a JSON list of texts, None where it calls all backends.
    """

    process_id: str
    host: str
    pid: int
    release: str
    started_at: int
    clock_ahead: int
    certificate_expires_at: int | None = None
    unusable_backends: str | None = None


class LiveEdges:
    """Registry of the edges that watch this backend. Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._edges: dict[str, LiveEdge] = {}
        self._streams = Counter[str]()

    @property
    def present(self) -> list[LiveEdge]:
        """Edges that watch now."""
        with self._lock:
            return list(self._edges.values())

    def record_handshake(self, request: HandshakeRequest) -> None:
        """Takes how an edge that watches is."""
        backends = [*request.unusable_backends]
        expires = request.HasField("certificate_expires_at")
        with self._lock:
            edge = self._edges.get(request.process.process_id)
            if edge is not None:
                self._edges[edge.process_id] = edge._replace(
                    certificate_expires_at=milliseconds_of(request.certificate_expires_at) if expires else None,
                    unusable_backends=json.dumps(backends) if backends else None,
                )

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
        with self._lock:
            self._streams[edge.process_id] += 1
            if edge.process_id:
                self._edges[edge.process_id] = edge
        try:
            yield
        finally:
            with self._lock:
                self._streams[edge.process_id] -= 1
                # A stream that followed this one may have counted it anew.
                if not self._streams[edge.process_id]:
                    del self._streams[edge.process_id]
                    self._edges.pop(edge.process_id, None)
