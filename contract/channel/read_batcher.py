"""Batches point reads of keys: those that wait while calls are under way are sent in one RPC.

A gRPC call costs several times as much as a point read. With sixteen callers at once, a batched read costs edge and
backend together less than half of a single call, and the read of a lone caller waits no longer than without batches
(`python -m benchmarks`: the last row).
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from time import monotonic
from typing import Any, Final, NamedTuple

from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from contract.channel import Metadata
from contract.metadata import ACTOR, KEY_ID, REQUEST_ID
from contract.refusals import Refusal, refusal_from_trailer
from contract.routes import METHODS
from telemetry.trace_context import TRACEPARENT, is_sampled
from workflow_api.v1.edge_pb2 import KeyRead, KeyReadAnswer, ReadManyRequest
from workflow_api.v1.options_pb2 import ACCESS_ANY_KEY, ACCESS_SCOPE, method_rules

READ_MANY: Final = "/workflow_api.v1.EdgeService/ReadMany"

_OF_KEYS: Final = frozenset({ACCESS_ANY_KEY, ACCESS_SCOPE})
BATCHED: Final[Mapping[str, type[Message]]] = {
    rpc: GetMessageClass(method.output_type)
    for rpc, method in METHODS.items()
    if (rules := method.GetOptions().Extensions[method_rules]).point_read and rules.access in _OF_KEYS
}
"""The point reads of keys, with the type of their answers."""

_METADATA: Final = ((ACTOR, "edge"),)
_MOST_READS: Final = 16
_MOST_CALLS: Final = 2
_HELD_UP_SECONDS: Final = 0.02
# Seconds after which a backend of an older release is asked again, since it may have been replaced.
_AGAIN_SECONDS: Final = 60.0

Call = Callable[[str, Message, Metadata, float], Awaitable[Message]]


class NotServedError(Exception):
    """Raised where the backend serves no batches."""


class _PendingRead(NamedTuple):
    rpc: str
    request: Message
    metadata: Metadata
    until: float
    answer: "asyncio.Future[Message]"


class ReadBatcher:
    """Gathers point reads of keys for one channel, whose `call` makes them.

    A slow call, as to a backend that hangs, does not delay later reads.
    """

    def __init__(self, call: Call) -> None:
        self._call = call
        self._not_served_until = 0.0
        self._waiting: deque[_PendingRead] = deque()
        self._under_way: set[asyncio.Task[None]] = set()
        self._quick: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None

    def takes(self, rpc: str, metadata: Metadata) -> bool:
        """Returns whether a call may be part of a batch."""
        if rpc not in BATCHED or monotonic() < self._not_served_until:
            return False
        names = dict(metadata)
        # A read whose trace is recorded is called alone, for a span of its own at the backend.
        return bool(names.get(KEY_ID)) and not (TRACEPARENT in names and is_sampled(names[TRACEPARENT]))

    async def unary(self, rpc: str, request: Message, metadata: Metadata, seconds: float) -> Message:
        """Returns the answer of a call that may be part of a batch; see `Channel`."""
        loop = asyncio.get_running_loop()
        read = _PendingRead(rpc, request, metadata, monotonic() + seconds, loop.create_future())
        self._waiting.append(read)
        if len(self._quick) < _MOST_CALLS:
            self._begin()
        elif self._timer is None:
            self._timer = loop.call_later(_HELD_UP_SECONDS, self._begin_another)
        return await read.answer

    def _begin(self) -> None:
        # The task runs after the other callbacks of this iteration of the loop, and takes the reads that wait by then.
        task = asyncio.get_running_loop().create_task(self._make_calls())
        self._under_way.add(task)
        self._quick.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._under_way.discard(task)
        self._quick.discard(task)
        if self._waiting and len(self._quick) < _MOST_CALLS:
            self._begin()

    def _begin_another(self) -> None:
        """Begins a further call beside slow ones if reads wait."""
        self._timer = None
        if self._waiting:
            self._quick.clear()
            self._begin()

    async def _make_calls(self) -> None:
        taken = [self._waiting.popleft() for _ in range(min(_MOST_READS, len(self._waiting)))]
        reads = [read for read in taken if not read.answer.done()]
        try:
            if len(reads) > 1:
                await self._call_batch(reads)
            elif reads:
                await self._call_single(reads[0])
        except Exception as error:  # noqa: BLE001 - each caller gets the error
            for read in reads:
                _fail(read, error)
        finally:
            # Pending only if this task was cancelled.
            for read in reads:
                read.answer.cancel()

    async def _call_single(self, read: _PendingRead) -> None:
        try:
            _answer(read, await self._call(read.rpc, read.request, read.metadata, read.until - monotonic()))
        except Refusal as refusal:
            _fail(read, refusal)

    async def _call_batch(self, reads: list[_PendingRead]) -> None:
        seconds = min(read.until for read in reads) - monotonic()
        try:
            made: Any = await self._call(READ_MANY, ReadManyRequest(reads=map(_key_read, reads)), _METADATA, seconds)
        except Refusal as refusal:
            if refusal.status >= 500:
                raise
            # This backend does not batch one of the RPCs.
            await asyncio.gather(*map(self._call_single, reads))
            return
        except NotServedError:
            self._not_served_until = monotonic() + _AGAIN_SECONDS
            await asyncio.gather(*map(self._call_single, reads))
            return
        if len(made.answers) != len(reads):
            raise Refusal("runtime_error")
        for read, answer in zip(reads, made.answers, strict=True):
            _accept_answer(read, answer)


def _key_read(read: _PendingRead) -> KeyRead:
    names = dict(read.metadata)
    return KeyRead(
        rpc=read.rpc,
        request=read.request.SerializeToString(),
        key_id=names[KEY_ID],
        request_id=names.get(REQUEST_ID, ""),
    )


def _accept_answer(read: _PendingRead, answer: KeyReadAnswer) -> None:
    if not answer.HasField("response"):
        _fail(read, refusal_from_trailer(answer.refusal))
        return
    try:
        _answer(read, BATCHED[read.rpc].FromString(answer.response))
    except DecodeError:
        _fail(read, Refusal("runtime_error"))


def _answer(read: _PendingRead, message: Message) -> None:
    if not read.answer.done():
        read.answer.set_result(message)


def _fail(read: _PendingRead, error: Exception) -> None:
    if not read.answer.done():
        read.answer.set_exception(error)
