"""Services that answer from memory: a whole Channel for tests of the edge."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from hashlib import sha256
from typing import Any

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from contract.call_groups import calls_in
from contract.channel import Messages, Metadata
from contract.local_context import CachedAnswer
from contract.refusals import Refusal
from contract.times import to_timestamp
from workflow_api.v1.deployment_pb2 import Health
from workflow_api.v1.edge_pb2 import KeyMirror, MirroredKey, RecordUsageRequest, RecordUsageResponse
from workflow_api.v1.keys_pb2 import ApiKey
from workflow_api.v1.options_pb2 import Scope
from workflow_api.v1.usage_pb2 import UsageRecord

CALLER = "/workflow_api.v1.CallerService/"
EDGE = "/workflow_api.v1.EdgeService/"
RUNS = "/workflow_api.v1.RunsService/"
OUTPUTS = "/workflow_api.v1.OutputsService/"
DEPLOYMENT = "/workflow_api.v1.DeploymentService/"

KEY_ID = "ak_0123456789ab"
SECRET = "s" * 43
EXTERNAL_ID = "ake_" + "0" * 32
CREDENTIALS = (f"Authorization: Bearer {KEY_ID}.{SECRET}", f"X-Service-Key-External-Id: {EXTERNAL_ID}")


def digest(text: str) -> bytes:
    return sha256(text.encode()).digest()


def mirrored_key(**other: Any) -> MirroredKey:
    fields: dict[str, Any] = {
        "key_id": KEY_ID,
        "deployment_id": "dep_1",
        "secret_sha256": digest(SECRET),
        "external_id_sha256": digest(EXTERNAL_ID),
        "scopes": [scope for scope in Scope.values() if scope],
        "expires_at": Timestamp(seconds=4_000_000_000),
        "rate_limit_rpm": 10_000,
    }
    return MirroredKey(**{**fields, **other})


def mirror(*keys: MirroredKey, **other: Any) -> KeyMirror:
    fields: dict[str, Any] = {
        "deployment_id": "dep_1",
        "governed": True,
        "api_enabled": True,
        "any_key_ever": True,
        "revision": 1,
    }
    return KeyMirror(**{**fields, **other}, keys=keys)


class MemoryChannel:
    """Answers RPCs from memory; what is called, and with what metadata, can be read afterwards."""

    def __init__(self, present: KeyMirror | None = None) -> None:
        self.mirror = present if present is not None else mirror(mirrored_key())
        self.reachable = True
        self.answers: dict[str, Callable[[Any], Message]] = {
            DEPLOYMENT + "GetHealth": lambda _: Health(
                status=Health.STATUS_OK, deployment_id="dep_1", api_version="2026-09-24"
            ),
            CALLER + "GetMe": lambda _: ApiKey(key_id=KEY_ID, name="test", deployment_id="dep_1"),
            EDGE + "GetKeyMirror": lambda _: self.mirror,
            EDGE + "RecordUsage": self._record_usage,
        }
        self.streams: dict[str, Callable[[Any], AsyncIterator[Message]]] = {EDGE + "WatchKeyMirror": self._watch_keys}
        self.calls: list[tuple[str, Message, dict[str, str]]] = []
        self.batches: list[RecordUsageRequest] = []
        self.open_streams: list[str] = []
        self.closed_streams: list[str] = []
        self._changed = asyncio.Event()
        self._lock = threading.Lock()

    @property
    def usage(self) -> list[UsageRecord]:
        return [
            UsageRecord(
                at=to_timestamp(at),
                key_id=key_id,
                method=kind[0],
                route=kind[1],
                status=kind[2],
                address=address,
                reason=kind[3],
                request_id=request_id,
                duration_us=took,
            )
            for batch in self.batches
            for group in batch.groups
            for at, key_id, kind, address, request_id, took in calls_in(group)
        ]

    def called(self, rpc: str) -> list[Any]:
        return [request for name, request, _ in self.calls if name == rpc]

    async def change_keys(self, present: KeyMirror) -> None:
        self.mirror = present
        self._changed.set()

    async def answer(self, rpc: str, request: Message, metadata: Metadata, seconds: float) -> CachedAnswer:
        return CachedAnswer(await self.unary(rpc, request, metadata, seconds))

    async def unary(self, rpc: str, request: Message, metadata: Metadata, seconds: float) -> Message:
        self.calls.append((rpc, request, dict(metadata)))
        if not self.reachable:
            raise Refusal("runtime_unreachable")
        return self.answers[rpc](request)

    async def stream(self, rpc: str, request: Message, metadata: Metadata, seconds: float) -> Messages:
        self.calls.append((rpc, request, dict(metadata)))
        self.open_streams.append(rpc)
        try:
            if not self.reachable:
                raise Refusal("runtime_unreachable")
            async for message in self.streams[rpc](request):
                yield message
        finally:
            self.closed_streams.append(rpc)

    async def close(self) -> None:
        pass

    def _record_usage(self, request: RecordUsageRequest) -> RecordUsageResponse:
        self.batches.append(request)
        return RecordUsageResponse()

    async def _watch_keys(self, _: Any) -> AsyncIterator[Message]:
        while self.reachable:
            yield self.mirror
            self._changed.clear()
            try:
                async with asyncio.timeout(0.05):
                    await self._changed.wait()
            except TimeoutError:
                yield KeyMirror(revision=self.mirror.revision, unchanged=True)


def answering(messages: Sequence[Message]) -> Callable[[Any], AsyncIterator[Message]]:
    async def stream(_: Any) -> AsyncIterator[Message]:
        for message in messages:
            yield message

    return stream


def refusing(code: str, **data: Any) -> Callable[[Any], Message]:
    def answer(_: Any) -> Message:
        raise Refusal(code, **data)

    return answer
