"""Channel to backends in other processes, over gRPC."""

import asyncio
import json
import logging
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Any, Final, Self

import grpc
import grpc.aio
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.descriptor_pb2 import MethodOptions
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from contract.channel import LONGEST_STREAM_SECONDS, Messages, Metadata
from contract.channel.read_batcher import READ_MANY, NotServedError, ReadBatcher
from contract.local_context import CachedAnswer
from contract.metadata import STATUS_TRAILER
from contract.refusals import NoAnswer, Refusal, refusal_from_trailer
from contract.routes import METHODS
from contract.versions import OWN, liveness_of

_SERVICE_CONFIG: Final = {
    # Calls go round robin to the backends behind a name or several addresses,
    "loadBalancingConfig": [{"round_robin": {}}],
    # as far as these report to be alive with compatible versions; a backend that stops reports it beforehand.
    "healthCheckConfig": {"serviceName": liveness_of(OWN)},
}

PROBE_OPTIONS: Final = (
    # A name stands for other addresses once backends come and go.
    ("grpc.dns_min_time_between_resolutions_ms", 2_000),
    # A mirror of many keys or a page of large events exceeds gRPC's default.
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_metadata_size", 4 * 1_048_576),
    ("grpc.absolute_max_metadata_size", 4 * 1_048_576),
    # Proxies are for the outside world, and the backend is near.
    ("grpc.enable_http_proxy", 0),
    # grpc's own pauses grow to two minutes; a backend that comes back must be found within seconds.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # A peer that vanished without closing its connection is noticed while the watch stream is open.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
)
"""Options of a channel to one backend of any version."""

CHANNEL_OPTIONS: Final = (("grpc.service_config", json.dumps(_SERVICE_CONFIG)), *PROBE_OPTIONS)
"""Options of a grpc.aio channel to all backends, for calls."""

_RENEWAL_SECONDS: Final = 1.0
# Longer than the longest pause before grpc reconnects.
_FOUND_SECONDS: Final = 2.0
_REACHED: Final = grpc.ChannelConnectivity.READY
_NONE_REACHED: Final = grpc.ChannelConnectivity.TRANSIENT_FAILURE
_UNANSWERED: Final = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED})
# A backend that stops cancels what reaches it from then on; the next connection may lead to another backend.
_STOPPED: Final = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED})
# An earlier release, a backend with a database server, or a certificate that may not call the batch RPC.
_NOT_SERVED: Final = frozenset({grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.PERMISSION_DENIED})
_REPEATABLE: Final = frozenset(
    rpc for rpc, method in METHODS.items() if method.GetOptions().idempotency_level != MethodOptions.IDEMPOTENCY_UNKNOWN
)

_LOG = logging.getLogger(__name__)


class _Connection:
    """An open grpc.aio channel and the calls on it; once retired, the channel closes after its last call."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.channel = channel
        self.calls: dict[str, Any] = {rpc: _multicallable(channel, rpc, method) for rpc, method in METHODS.items()}
        self._open = 0
        self._retired = False
        self._closing: asyncio.Task[None] | None = None

    def __enter__(self) -> Self:
        self._open += 1
        return self

    def __exit__(self, *_: object) -> None:
        self._open -= 1
        self._close_when_done()

    async def found(self) -> bool:
        """Waits briefly for a reachable backend if none is connected; returns whether a call may be tried."""
        # Checked first: a timeout costs more than the rest of this method, and is seldom needed.
        if self.channel.get_state() is not _NONE_REACHED:
            return True
        with suppress(TimeoutError):
            async with asyncio.timeout(_FOUND_SECONDS):
                while self.channel.get_state() is _NONE_REACHED:
                    await self.channel.wait_for_state_change(_NONE_REACHED)
        return self.channel.get_state() is not _NONE_REACHED

    @property
    def closed(self) -> bool:
        """Returns whether the channel has closed after it was retired."""
        return self._closing is not None and self._closing.done()

    def retire(self) -> None:
        """Stops taking calls."""
        self._retired = True
        self._close_when_done()

    def _close_when_done(self) -> None:
        if self._retired and not self._open:
            self._closing = asyncio.ensure_future(self.channel.close())


class RemoteChannel:
    """A `Channel` over an open grpc.aio channel, which `close` closes.

    `renewed` is called at most once a second; it returns a grpc.aio channel for new calls, None for no change.
    """

    def __init__(
        self, channel: grpc.aio.Channel, renewed: Callable[[], grpc.aio.Channel | None] = lambda: None
    ) -> None:
        self._connection = _Connection(channel)
        self._former: list[_Connection] = []
        self._renewed = renewed
        self._asked_at = monotonic()
        self._reads = ReadBatcher(self._call)
        self._lost = False

    async def answer(self, rpc: str, request: Message, metadata: Metadata, seconds: float) -> CachedAnswer:
        """Returns the answer of a unary RPC; never cached, because the answer cache is in the other process."""
        return CachedAnswer(await self.unary(rpc, request, metadata, seconds))

    async def unary(self, rpc: str, request: Message, metadata: Metadata, seconds: float) -> Message:
        """Returns the answer of a unary RPC; see `Channel`."""
        call = self._reads.unary if self._reads.takes(rpc, metadata) else self._call
        return await call(rpc, request, metadata, seconds)

    async def _call(self, rpc: str, request: Message, metadata: Metadata, seconds: float) -> Message:
        until = monotonic() + seconds
        # A plain tuple would make grpc check each pair, which takes as long as the rest of making the call.
        sent = grpc.aio.Metadata(*metadata)
        with self._current() as connection:
            for last in (rpc not in _REPEATABLE, True):
                # A call that has waited for a backend in vain does not wait again.
                only = not await connection.found()
                call = connection.calls[rpc](request, metadata=sent, timeout=until - monotonic())
                try:
                    answer: Message | None = await call
                except grpc.aio.AioRpcError as error:
                    if rpc == READ_MANY and error.code() in _NOT_SERVED:
                        raise NotServedError from error
                    if last or only or not _stopped(error):
                        raise self._refusal(error, connection) from error
                else:
                    self._answered()
                    return _readable(answer)
        raise AssertionError("the last try has returned or raised")

    async def stream(self, rpc: str, request: Message, metadata: Metadata, seconds: float) -> Messages:
        """Yields the messages of a server-streaming RPC; see `Channel`."""
        with self._current() as connection:
            last, began = rpc not in _REPEATABLE, False
            while True:
                last = not await connection.found() or last
                call = connection.calls[rpc](request, metadata=metadata, timeout=LONGEST_STREAM_SECONDS)
                try:
                    while True:
                        async with asyncio.timeout(seconds):
                            message = await call.read()
                        if message is grpc.aio.EOF:
                            return
                        last = began = True
                        self._answered()
                        yield _readable(message)
                except grpc.aio.AioRpcError as error:
                    if began and _stopped(error):
                        # The next call tells whether another backend answers.
                        raise NoAnswer from error
                    if last or not _stopped(error):
                        raise self._refusal(error, connection) from error
                    last = True
                except TimeoutError:
                    if not self._lost:
                        _LOG.info("No answer from the backend: a stream had no message for %g s", seconds)
                    raise NoAnswer from None
                finally:
                    call.cancel()

    async def close(self) -> None:
        """Closes the grpc channel, and former channels on which calls go on."""
        for connection in (*self._former, self._connection):
            await connection.channel.close()

    def _refusal(self, error: grpc.aio.AioRpcError, connection: _Connection) -> Refusal:
        """Returns the refusal for a failed call."""
        trailer = error.trailing_metadata().get(STATUS_TRAILER)
        if trailer is None and error.code() in _UNANSWERED | _STOPPED:
            self._unanswered(error, connection)
            return NoAnswer()
        self._answered()
        if trailer is None:
            _LOG.warning("The backend answered %s", error.code().name)
        return refusal_from_trailer(trailer)

    def _unanswered(self, error: grpc.aio.AioRpcError, connection: _Connection) -> None:
        if self._lost:
            return
        # Lost neither after a slow call, nor after the stop of one backend while another is connected.
        self._lost = error.code() in _STOPPED and connection.channel.get_state() is not _REACHED
        if self._lost:
            _LOG.warning("The backend cannot be reached: %s", error.details())
        else:
            _LOG.info("No answer from the backend: %s", error.details())

    def _answered(self) -> None:
        if self._lost:
            self._lost = False
            _LOG.warning("The backend answers again")

    def _current(self) -> _Connection:
        now = monotonic()
        if now - self._asked_at >= _RENEWAL_SECONDS:
            self._asked_at = now
            channel = self._renewed()
            if channel is not None:
                self._connection.retire()
                self._former = [former for former in (*self._former, self._connection) if not former.closed]
                self._connection = _Connection(channel)
        return self._connection


def _multicallable(channel: grpc.aio.Channel, rpc: str, method: MethodDescriptor) -> Any:
    make = channel.unary_stream if method.server_streaming else channel.unary_unary
    return make(
        rpc,
        request_serializer=GetMessageClass(method.input_type).SerializeToString,
        response_deserializer=GetMessageClass(method.output_type).FromString,
    )


def _readable(message: Message | None) -> Message:
    if message is None:  # grpc could not parse the answer
        raise Refusal("runtime_error")
    return message


def _stopped(error: grpc.aio.AioRpcError) -> bool:
    """Returns whether no servicer answered, so that the call may be made again, at once and once."""
    return error.code() in _STOPPED and error.trailing_metadata().get(STATUS_TRAILER) is None
