"""Watches the backends of a channel: whether each can be reached and has compatible versions."""

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cache
from typing import Final, NamedTuple, Self
from uuid import uuid4

import grpc
import grpc.aio

from contract.versions import OWN, RELEASE, Versions, incompatibility
from telemetry import Family, Gauge
from telemetry.outages import RepeatedWork
from workflow_api.v1.edge_pb2 import EdgeProcess, HandshakeRequest, HandshakeResponse

BACKEND_UP: Final = Gauge("backend_up", "1 where a backend can be reached and called, else 0.", ("backend",))
BACKEND_COMPATIBLE: Final = Gauge(
    "backend_compatible", "1 where a backend that was reached has compatible versions, else 0.", ("backend",)
)


@cache
def this_process() -> EdgeProcess:
    """Returns this process for the handshake, begun at the time of the first call."""
    process = EdgeProcess(process_id=f"edge_{uuid4().hex}", host=socket.gethostname(), pid=os.getpid(), release=RELEASE)
    process.started_at.GetCurrentTime()
    return process


_RPC: Final = "/workflow_api.v1.EdgeService/Handshake"
_PAUSE_SECONDS: Final = 5.0
_ANSWER_SECONDS: Final = 3.0
_MOST_BACKENDS: Final = 64
_MOST_REPORTED: Final = 16
_MOST_CHARACTERS: Final = 400

_LOG = logging.getLogger(__name__)

BackendAddress = tuple[str, int] | str
"""Host and port of backends, or the gRPC target of a single backend."""


class _State(NamedTuple):
    """State of one backend; `problem` is empty where the backend can be called."""

    problem: str
    compatible: bool | None = None


class BackendWatch:
    """Compares versions with each backend every few seconds, on a connection of its own, while its context lasts.

    Logs once that a backend cannot be called, with the reason, and once that the backend can be called again.

    Args:
        backends: Addresses of the backends; a name may stand for several.
        open_probe: Opens a channel to a target; the certificate must bear the name given, if not empty.
        certificate_expires_at: Returns the expiry of this process's certificate, None without a certificate.
    """

    def __init__(
        self,
        backends: Sequence[BackendAddress],
        open_probe: Callable[[str, str], grpc.aio.Channel],
        certificate_expires_at: Callable[[], datetime | None] = lambda: None,
    ) -> None:
        self._backends = backends
        self._open_probe = open_probe
        self._certificate_expires_at = certificate_expires_at
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._states: dict[str, _State] = {}
        self._unresolved: set[str] = set()
        self._resolved: dict[str, str] = {}
        self._rounds = RepeatedWork(_LOG, "The watch of backends fails", "The watch of backends goes on", logging.ERROR)
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        for channel in self._channels.values():
            await channel.close()

    def measured(self) -> list[Family]:
        """Returns the state of each backend; callable from any thread."""
        states = self._states.copy()
        return [
            BACKEND_UP.with_values({(name,): not state.problem for name, state in states.items()}),
            BACKEND_COMPATIBLE.with_values(
                {(name,): state.compatible for name, state in states.items() if state.compatible is not None}
            ),
        ]

    async def _run(self) -> None:
        while True:
            try:
                targets = await self._targets()
                # A probe that fails ends the others, so that none goes on into the next round.
                async with asyncio.TaskGroup() as probes:
                    for target, name in targets.items():
                        probes.create_task(self._probe(target, name))
                for removed in self._states.keys() - targets - self._unresolved:
                    self._take(removed, _State(""))
                    del self._states[removed]
                for removed in self._channels.keys() - targets:
                    await self._channels.pop(removed).close()
            except Exception as error:  # noqa: BLE001 - the next round may succeed
                self._rounds.failed(error)
            else:
                self._rounds.succeeded()
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _targets(self) -> dict[str, str]:
        """Returns the targets of all backends, with the certificate's name where it differs from the target's."""
        found: dict[str, str] = {}
        self._unresolved.clear()
        for where in self._backends:
            if isinstance(where, str):
                found[where] = ""
                continue
            host, port = where
            try:
                answers = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
            except OSError as error:
                self._unresolved.add(f"{host}:{port}")
                self._take(f"{host}:{port}", _State(f"its name cannot be resolved: {error.strerror}"))
                found |= {target: name for target, name in self._resolved.items() if name == host}
                continue
            for family, _, _, _, address in answers:
                shown = f"[{address[0]}]" if family == socket.AF_INET6 else address[0]
                found[f"{shown}:{port}"] = "" if host == address[0] else host
        self._resolved = dict(list(found.items())[:_MOST_BACKENDS])
        return self._resolved

    async def _probe(self, target: str, name: str) -> None:
        # A new connection sees certificates that were replaced meanwhile.
        for last in (target not in self._channels, True):
            channel = self._channels.get(target)
            if channel is None:
                channel = self._channels[target] = self._open_probe(target, name)
            try:
                state = await self._shake_hands(channel)
            except grpc.aio.AioRpcError as error:
                del self._channels[target]
                await channel.close()
                state = _failure(error)
            if last or not state.problem:
                break
        self._take(target, state)

    async def _shake_hands(self, channel: grpc.aio.Channel) -> _State:
        call = channel.unary_unary(
            _RPC,
            request_serializer=HandshakeRequest.SerializeToString,
            response_deserializer=HandshakeResponse.FromString,
        )
        answer = await call(self._request(), timeout=_ANSWER_SECONDS)
        backend = Versions(answer.api_version, answer.release)
        problem = incompatibility(OWN, backend) or answer.incompatibility
        return _State(problem[:_MOST_CHARACTERS], not problem)

    def _request(self) -> HandshakeRequest:
        problems = [f"{name}: {state.problem}" for name, state in sorted(self._states.items()) if state.problem]
        request = HandshakeRequest(
            api_version=OWN.api_version,
            release=OWN.release,
            process=this_process(),
            unusable_backends=problems[:_MOST_REPORTED],
        )
        expires_at = self._certificate_expires_at()
        if expires_at is not None:
            request.certificate_expires_at.FromDatetime(expires_at)
        return request

    def _take(self, name: str, state: _State) -> None:
        before = self._states.get(name, _State(""))
        self._states[name] = state
        if state.problem and (not before.problem or before.compatible != state.compatible):
            _LOG.warning("The backend at %s cannot be called: %s", name, state.problem)
        elif before.problem and not state.problem:
            _LOG.warning("The backend at %s can be called again", name)


def _failure(error: grpc.aio.AioRpcError) -> _State:
    if error.code() is grpc.StatusCode.UNIMPLEMENTED:
        return _State("its release is too old to compare versions", compatible=False)
    return _State(str(error.details() or error.code().name).rstrip(".")[:_MOST_CHARACTERS])
