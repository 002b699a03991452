"""EdgeService over gRPC: the mirror of keys, ids of changed runs, and usage records of edges."""

import logging
from collections.abc import Callable, Iterator
from time import monotonic, sleep
from typing import Final

import grpc

from backend.common.ids import new_id
from backend.common.waits import KeyChanges
from backend.services.dependencies import Services
from backend.services.deployment import sql as deployment_sql
from backend.services.keys import sql, usage_sql
from backend.services.keys.messages import mirrored_key
from backend.services.keys.rules import require_well_formed
from backend.services.live_edges import LiveEdges
from backend.services.run_changes import RunChanges
from backend.storage.database import Tx
from contract.call_groups import calls_of, group_calls
from contract.times import milliseconds_of
from contract.versions import API_VERSION, OWN, RELEASE, Versions, incompatibility
from workflow_api.v1 import edge_pb2, edge_pb2_grpc

_DEFAULT_HEARTBEAT_MS: Final = 5_000
# A busy deployment commits thousands of times a second; a message for each would cost more than the changes.
_PAUSE_SECONDS: Final = 0.005
_MESSAGES_WITHOUT_PAUSE: Final = 2
_MOST_REMEMBERED: Final = 100
"""Most incompatible callers that are remembered, to log each once."""

_LOG = logging.getLogger(__name__)


class TokenBucket:
    """Token bucket: `seconds` a token, at most `burst` tokens.

    Limits the rate of messages about changed runs without delaying rare messages: with a fixed pause after each
    message, a caller who waits for each run before starting the next got only one run in two pauses, 10 ms.
    (`python -m benchmarks`: a one-step run alone.)
    """

    def __init__(self, seconds: float, burst: int, clock: Callable[[], float] = monotonic) -> None:
        self._seconds = seconds
        self._credit = burst * seconds
        self._clock = clock
        self._due = clock() - self._credit

    def take(self) -> float:
        """Takes a token, in advance if none is left; returns the seconds until the bucket is not overdrawn."""
        now = self._clock()
        self._due = max(self._due, now - self._credit) + self._seconds
        return max(0.0, self._due - now)


class EdgeServicer(edge_pb2_grpc.EdgeServiceServicer):
    """Sends edges the mirror of keys and the ids of changed runs, and stores their usage records.

    `read_many` answers several point reads of keys in one call.
    """

    def __init__(
        self,
        services: Services,
        changes: KeyChanges,
        poll_seconds: float,
        run_changes: RunChanges,
        read_many: Callable[[edge_pb2.ReadManyRequest], edge_pb2.ReadManyResponse],
        edges: LiveEdges,
    ) -> None:
        self._services = services
        self._changes = changes
        self._run_changes = run_changes
        self._poll_seconds = poll_seconds
        self._read_many = read_many
        self._edges = edges
        self._refused: set[tuple[str, Versions]] = set()

    def Handshake(
        self, request: edge_pb2.HandshakeRequest, context: grpc.ServicerContext
    ) -> edge_pb2.HandshakeResponse:
        """Compares the versions of both sides, and logs each incompatible caller once."""
        caller = Versions(request.api_version, request.release)
        why = incompatibility(caller, OWN) or ""
        refused = request.process.host, caller
        if why and refused not in self._refused and len(self._refused) < _MOST_REMEMBERED:
            self._refused.add(refused)
            _LOG.warning(
                "A caller on %s cannot use this backend: %s", request.process.host or "an unnamed machine", why
            )
        self._edges.record_handshake(request)
        return edge_pb2.HandshakeResponse(api_version=API_VERSION, release=RELEASE, incompatibility=why)

    def GetKeyMirror(self, request: edge_pb2.GetKeyMirrorRequest, context: grpc.ServicerContext) -> edge_pb2.KeyMirror:
        """Returns the keys and flags by which an edge admits calls."""
        return self._services.database.snapshot(_read_mirror)

    def WatchKeyMirror(
        self, request: edge_pb2.WatchKeyMirrorRequest, context: grpc.ServicerContext
    ) -> Iterator[edge_pb2.KeyMirror]:
        """Yields the mirror now and after each change, and a heartbeat in between."""
        with self._edges.watching(request.process):
            yield from self._watch_mirror(request, context)

    def WatchRunChanges(
        self, request: edge_pb2.WatchRunChangesRequest, context: grpc.ServicerContext
    ) -> Iterator[edge_pb2.RunChanges]:
        """Yields the ids of runs that change, one message for changes close together."""
        heartbeat = (milliseconds_of(request.heartbeat) or _DEFAULT_HEARTBEAT_MS) / 1000
        subscription = self._run_changes.subscribe()
        bucket = TokenBucket(_PAUSE_SECONDS, _MESSAGES_WITHOUT_PAUSE)
        try:
            yield edge_pb2.RunChanges()
            sent_at = monotonic()
            while context.is_active() and not subscription.ended:
                subscription.wait(min(heartbeat, self._poll_seconds))
                run_ids, missed = subscription.take()
                if run_ids or missed or monotonic() - sent_at >= heartbeat:
                    sent_at = monotonic()
                    yield edge_pb2.RunChanges(run_ids=run_ids, missed=missed)
                    sleep(bucket.take())
        finally:
            subscription.close()

    def RecordUsage(
        self, request: edge_pb2.RecordUsageRequest, context: grpc.ServicerContext
    ) -> edge_pb2.RecordUsageResponse:
        """Stores a batch of usage records."""
        batch_id = request.batch_id or new_id("use")
        require_well_formed(request.groups)
        groups = [*request.groups, *group_calls(calls_of(request.records))]
        self._services.database.write(lambda tx: usage_sql.add_batch(tx, batch_id, groups), lock_key="usage")
        return edge_pb2.RecordUsageResponse()

    def ReadMany(self, request: edge_pb2.ReadManyRequest, context: grpc.ServicerContext) -> edge_pb2.ReadManyResponse:
        """Answers several point reads of keys."""
        return self._read_many(request)

    def _watch_mirror(
        self, request: edge_pb2.WatchKeyMirrorRequest, context: grpc.ServicerContext
    ) -> Iterator[edge_pb2.KeyMirror]:
        heartbeat_ms = milliseconds_of(request.heartbeat) or _DEFAULT_HEARTBEAT_MS
        revision, sent_at = -1, 0
        while context.is_active() and not self._changes.ended:
            count = self._changes.count
            now = self._services.clock()
            if self._services.database.read(deployment_sql.get).revision != revision:
                mirror = self._services.database.snapshot(_read_mirror)
                revision, sent_at = mirror.revision, now
                yield mirror
            elif not 0 <= now - sent_at < heartbeat_ms:
                sent_at = now
                yield edge_pb2.KeyMirror(revision=revision, unchanged=True)
            self._changes.wait(count, self._poll_seconds)


def _read_mirror(tx: Tx) -> edge_pb2.KeyMirror:
    deployment = deployment_sql.get(tx)
    return edge_pb2.KeyMirror(
        deployment_id=deployment.deployment_id,
        governed=bool(deployment.governed),
        api_enabled=bool(deployment.api_enabled),
        any_key_ever=bool(deployment.any_key_ever),
        revision=deployment.revision,
        keys=[mirrored_key(row) for row in sql.mirror(tx)],
    )
