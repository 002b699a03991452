"""Calls services of the same process as if they were behind gRPC: a channel for stubs, without a socket."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Protocol

from google.protobuf.message import Message

from contract.local_context import LocalContext
from deploy.failures import CommandError

_NEVER: Final = 1e9


class Handler(Protocol):
    """One wrapped RPC, as the backend makes them."""

    def answer(self, request: Any, context: Any) -> Message:
        """Returns the answer of a unary RPC."""
        ...

    def messages(self, request: Any, context: Any) -> Iterator[Message]:
        """Yields the messages of a streaming RPC."""
        ...


class HandlerChannel:
    """Answers the calls of stubs by handlers, keyed by `/package.Service/Method`; a refusal raises CommandError."""

    def __init__(self, handlers: Mapping[str, Handler]) -> None:
        self._handlers = handlers

    def unary_unary(self, path: str, **_: object) -> Callable[..., Message]:
        """Returns what calls a unary RPC; see `grpc.Channel`."""

        def call(request: Message, *, metadata: Any = (), timeout: float | None = None) -> Message:
            context = LocalContext(metadata, timeout or _NEVER)
            answer = self._handlers[path].answer(request, context)
            _raise_refusal(context)
            return answer

        return call

    def unary_stream(self, path: str, **_: object) -> Callable[..., Iterator[Message]]:
        """Returns what calls a server-streaming RPC; see `grpc.Channel`."""

        def call(request: Message, *, metadata: Any = (), timeout: float | None = None) -> Iterator[Message]:
            context = LocalContext(metadata, timeout or _NEVER)
            try:
                yield from self._handlers[path].messages(request, context)
            finally:
                context.cancel()
            _raise_refusal(context)

        return call


def _raise_refusal(context: LocalContext) -> None:
    refusal = context.refusal()
    if refusal is not None:
        raise CommandError(refusal.message, code=refusal.code, details=refusal.details)
