"""The gRPC server: every service, their health, and reflection."""

import errno
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from backend.rpc.access import Access, AccessInterceptor
from backend.rpc.interceptors import Handler
from backend.rpc.paused_streams import PausedStreams
from backend.rpc.reflection import add_reflection
from backend.storage.database import Database
from contract.versions import LIVENESS, OWN, incompatibility, parse_liveness


def claim_socket(path: Path) -> None:
    """Makes the socket's folder if it is missing.

    Raises:
        ValueError: the folder is open to others, or another process listens on the socket.
    """
    folder = path.parent
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        about = folder.stat()
    except OSError as error:
        raise ValueError(f"The folder {folder} of the gRPC socket cannot be used: {error.strerror}.") from None
    if about.st_uid != os.geteuid() or about.st_mode & 0o077:
        raise ValueError(
            f"The folder {folder} of the gRPC socket must belong to the service's user and be closed to all others "
            "(mode 700): whoever reaches the socket administers the service."
        )
    # gRPC takes the place of a socket without asking whether it is in use.
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        # EAGAIN: somebody listens, and has as many connections waiting as may wait.
        if probe.connect_ex(str(path)) in {0, errno.EAGAIN}:
            raise ValueError(f"The gRPC address unix:{path} is in use by another process.")


UNARY_THREADS: Final = 8
SHORTEST_PING_SECONDS: Final = 1.0
"""The shortest time between two keepalive pings of a channel, idle or not, that callers may count on."""

_STREAM_THREADS: Final = 64
_HEALTH_SECONDS: Final = 2.0
# Time for every edge to see by the health service that this server ends, and to call another. Later calls are lost.
_DRAIN_SECONDS: Final = 0.5
_UNIX: Final = "unix:"
_LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")
_OPTIONS: Final = (
    ("grpc.so_reuseport", 0),
    ("grpc.keepalive_time_ms", 30_000),
    # By default gRPC takes one ping in two hours without calls. Pings may arrive closer together than they were sent.
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", int(SHORTEST_PING_SECONDS * 500)),
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
)
# Connections are replaced now and then, because certificates are checked and names resolved only when one is made;
# calls under way on an old connection may finish.
_CONNECTION_AGE: Final = (
    ("grpc.max_connection_age_ms", 300_000),
    ("grpc.max_connection_age_grace_ms", 4 * 3_600_000),
)


class _Health(health.HealthServicer):  # type: ignore[misc]  # grpc_health has no types
    """Health service that answers NOT_FOUND to callers of incompatible versions, by the version in the name asked for.

    Channels watch the name on each connection, and send calls to backends that serve it only.
    """

    def Check(  # noqa: N802 - the RPC's name
        self, request: health_pb2.HealthCheckRequest, context: grpc.ServicerContext
    ) -> Any:
        """Returns whether a service is served."""
        return super().Check(_known(request), context)

    def Watch(  # noqa: N802 - the RPC's name
        self, request: health_pb2.HealthCheckRequest, context: grpc.ServicerContext, *callback: Any
    ) -> Any:
        """Sends whether a service is served, now and at each change."""
        return super().Watch(_known(request), context, *callback)


def _known(request: health_pb2.HealthCheckRequest) -> health_pb2.HealthCheckRequest:
    caller = parse_liveness(request.service)
    if caller is None or incompatibility(caller, OWN) is not None:
        return request
    return health_pb2.HealthCheckRequest(service=LIVENESS)


class GrpcServer:
    """Serves the handlers: plainly on loopback or a Unix socket (`unix:/path`), with credentials on any address.

    Raises:
        ValueError: the address needs credentials that it was not given, or it cannot be bound.
    """

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        database: Database,
        address: str,
        credentials: grpc.ServerCredentials | None = None,
        access: Access | None = None,
    ) -> None:
        socket_path = Path(address.removeprefix(_UNIX)) if address.startswith(_UNIX) else None
        if credentials is None and socket_path is None and address.rpartition(":")[0] not in _LOOPBACK:
            raise ValueError(f"Plain gRPC listens on loopback only, not on {address}: give it a certificate.")
        if socket_path is not None:
            claim_socket(socket_path)
        self._database = database
        self._services = sorted({path.split("/")[1] for path in handlers})
        self._streams = ThreadPoolExecutor(_STREAM_THREADS, thread_name_prefix="grpc-stream")
        unary = ThreadPoolExecutor(UNARY_THREADS, thread_name_prefix="grpc")
        self._server = grpc.server(
            unary,
            interceptors=[] if access is None else [AccessInterceptor(access)],
            options=_OPTIONS if credentials is None else (*_OPTIONS, *_CONNECTION_AGE),
        )
        self._paused = PausedStreams()
        self._server.add_generic_rpc_handlers((generic_handler(handlers, self._streams, self._paused),))
        self._health = _Health()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        add_reflection((*self._services, health.SERVICE_NAME), self._server)
        try:
            self.port = (
                self._server.add_insecure_port(address)
                if credentials is None
                else self._server.add_secure_port(address, credentials)
            )
        except RuntimeError:
            self.port = 0
        if not self.port:
            raise ValueError(f"The gRPC address {address} is in use or cannot be bound.")
        if socket_path is not None:
            socket_path.chmod(0o600)
        self._stopping = threading.Event()
        self._database_answers = False
        self._watch = threading.Thread(target=self._watch_health, name="grpc-health", daemon=True)

    def start(self) -> None:
        """Starts serving."""
        self._health.set(LIVENESS, health_pb2.HealthCheckResponse.SERVING)
        self._server.start()
        self._watch.start()

    def ready(self) -> bool:
        """Returns whether the health service reports the services as serving."""
        return self._database_answers and not self._stopping.is_set()

    def stop(self, grace_seconds: float, end_watches: Callable[[], None] = lambda: None) -> None:
        """Sends callers to other backends, refuses new calls, lets open ones finish within the grace, then ends them.

        `end_watches` ends those that would not end by themselves.
        """
        self._stopping.set()
        self._health.enter_graceful_shutdown()
        time.sleep(min(_DRAIN_SECONDS, grace_seconds))
        stopped = self._server.stop(grace_seconds)
        # Ended only now, because callers that watch would otherwise come back.
        end_watches()
        stopped.wait()
        self._paused.stop()
        self._streams.shutdown(wait=False, cancel_futures=True)

    def _watch_health(self) -> None:
        """Reports services as serving only while the database answers; the process counts as alive without it."""
        while True:
            self._database_answers = self._database.healthy()
            state = (
                health_pb2.HealthCheckResponse.SERVING
                if self._database_answers
                else health_pb2.HealthCheckResponse.NOT_SERVING
            )
            for service in ("", *self._services):
                self._health.set(service, state)
            if self._stopping.wait(_HEALTH_SECONDS):
                return


def generic_handler(
    handlers: Mapping[str, Handler], stream_pool: object, paused: PausedStreams
) -> grpc.GenericRpcHandler:
    """Returns the handlers for a grpc server; streams run in pools of their own and leave threads for other calls."""
    table = {path: _method_handler(handler, stream_pool, paused) for path, handler in handlers.items()}

    class _Handlers(grpc.GenericRpcHandler):
        def service(self, details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[Any, Any] | None":
            return table.get(details.method)

    return _Handlers()


def _method_handler(handler: Handler, stream_pool: object, paused: PausedStreams) -> "grpc.RpcMethodHandler[Any, Any]":
    parse, serialize = handler.request_class.FromString, handler.response_class.SerializeToString
    if not handler.streaming:
        return grpc.unary_unary_rpc_method_handler(handler.answer, parse, serialize)
    if handler.pausing:
        return grpc.unary_stream_rpc_method_handler(paused.behaviour(handler.call), parse, serialize)
    # grpc looks for the pool on the behaviour itself.
    handler.call.experimental_thread_pool = stream_pool  # type: ignore[attr-defined]
    return grpc.unary_stream_rpc_method_handler(handler.call, parse, serialize)
