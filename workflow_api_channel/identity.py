"""Metadata that names who a call is made for, added to each call of a channel."""

import string
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

import grpc
import grpc.aio

_KEY_ID = "workflow-api-key-id"
_ACTOR = "workflow-api-actor"
_VERBATIM = "".join(sorted(set(string.punctuation) - {"%"})) + " "


class _Identity(NamedTuple):
    metadata: tuple[tuple[str, str], ...]

    def added(self, details: Any) -> Any:
        """Returns the details of a call with the identity, as far as the call does not give its own."""
        given = tuple(details.metadata or ())
        own = {name for name, _ in given}
        metadata = (*given, *(entry for entry in self.metadata if entry[0] not in own))
        in_aio = isinstance(details, grpc.aio.ClientCallDetails)
        return details._replace(metadata=grpc.aio.Metadata(*metadata) if in_aio else metadata)


class _Interceptor(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor):
    def __init__(self, identity: _Identity) -> None:
        self._identity = identity

    def intercept_unary_unary(self, continuation: Callable[..., Any], details: Any, request: Any) -> Any:
        return continuation(self._identity.added(details), request)

    def intercept_unary_stream(self, continuation: Callable[..., Any], details: Any, request: Any) -> Any:
        return continuation(self._identity.added(details), request)


# grpc.aio takes an interceptor for one kind of call only.
class _AioUnary(grpc.aio.UnaryUnaryClientInterceptor):
    def __init__(self, identity: _Identity) -> None:
        self._identity = identity

    async def intercept_unary_unary(self, continuation: Callable[..., Any], details: Any, request: Any) -> Any:
        return await continuation(self._identity.added(details), request)


class _AioStream(grpc.aio.UnaryStreamClientInterceptor):
    def __init__(self, identity: _Identity) -> None:
        self._identity = identity

    async def intercept_unary_stream(self, continuation: Callable[..., Any], details: Any, request: Any) -> Any:
        return await continuation(self._identity.added(details), request)


def identified(channel: grpc.Channel, *, key_id: str | None = None, actor: str | None = None) -> grpc.Channel:
    """Returns the channel with this identity in each call that does not give its own.

    Args:
        channel: An open channel, which the caller closes.
        key_id: The API key that the calls are made for.
        actor: The person or service behind calls without a key, as `user:Jürgen`; it is encoded here.

    Raises:
        ValueError: both are missing, or one is blank.
    """
    return grpc.intercept_channel(channel, _Interceptor(_identity(key_id, actor)))


def identity_interceptors(
    *, key_id: str | None = None, actor: str | None = None
) -> Sequence[grpc.aio.ClientInterceptor]:
    """Returns interceptors for a channel of `grpc.aio`, which do what `identified` does.

    Raises:
        ValueError: both are missing, or one is blank.
    """
    identity = _identity(key_id, actor)
    return [_AioUnary(identity), _AioStream(identity)]


def _identity(key_id: str | None, actor: str | None) -> _Identity:
    given = [(_KEY_ID, key_id), (_ACTOR, None if actor is None else quote(actor, safe=_VERBATIM))]
    metadata = tuple((name, value) for name, value in given if value is not None)
    if not metadata or any(not value.strip() for _, value in metadata):
        raise ValueError("An identity needs a key_id or an actor, and neither may be blank.")
    return _Identity(metadata)
