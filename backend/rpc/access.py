"""Decides which RPCs the identity of a client certificate may call, from the options of the protos and the settings."""

import functools
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import grpc
from grpc_health.v1 import health

from backend.rpc import reflection
from backend.rpc.callers import principal_of
from workflow_api.v1 import options_pb2

ACT_FOR_KEYS: Final = "act-for-keys"

_EDGE: Final = options_pb2.CALLER_ROLE_EDGE
_CONSOLE: Final = options_pb2.CALLER_ROLE_CONSOLE
# The channels of these roles watch health, to leave a backend that is stopping.
_WATCH_HEALTH: Final = frozenset({_EDGE, _CONSOLE, options_pb2.CALLER_ROLE_RUNS})
_ON_BEHALF_OF_KEYS: Final = frozenset({options_pb2.ACCESS_ANY_KEY, options_pb2.ACCESS_SCOPE})

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Grant:
    """The RPCs and services that an identity may call, by full name, and whether it may act for keys."""

    rpcs: frozenset[str] = frozenset()
    services: frozenset[str] = frozenset()
    acts_for_keys: bool = False

    def __or__(self, other: "Grant") -> "Grant":
        return Grant(self.rpcs | other.rpcs, self.services | other.services, self.acts_for_keys or other.acts_for_keys)


class Access:
    """The grants of every identity; an identity that is not named may call nothing.

    Args:
        rpcs: Every RPC with the rules that its proto states.
        identities: Names of grants by `dns:<name>` or `uri:<URI>`: a role as `edge`, `administration` or `console`,
            `act-for-keys`, a service as `workflow_api.v1.RunsService`, or an RPC as
            `/workflow_api.v1.RunsService/GetRun`.

    Raises:
        ValueError: a grant names nothing that exists.
    """

    def __init__(self, rpcs: Mapping[str, options_pb2.MethodRules], identities: Mapping[str, Sequence[str]]) -> None:
        self._of_keys = frozenset(
            rpc for rpc, rules in rpcs.items() if rules.access in _ON_BEHALF_OF_KEYS or rules.limited_by_key
        )
        self._naming_keys = frozenset(rpc for rpc, rules in rpcs.items() if rules.names_keys)
        services = {rpc.split("/")[1] for rpc in rpcs} | {health.SERVICE_NAME}
        self._known: dict[str, Grant] = {
            **{_spelling(role): _role_grant(role, rpcs) for role in options_pb2.CallerRole.values() if role},
            ACT_FOR_KEYS: Grant(acts_for_keys=True),
            **{rpc: Grant(frozenset({rpc})) for rpc in rpcs},
            **{service: Grant(services=frozenset({service})) for service in services},
            # Tools try both versions of reflection.
            **dict.fromkeys(reflection.SERVICE_NAMES, Grant(services=frozenset(reflection.SERVICE_NAMES))),
        }
        self._grants = {
            identity: functools.reduce(Grant.__or__, (self._grant(identity, name) for name in given), Grant())
            for identity, given in identities.items()
        }

    def refusal(self, identities: Iterable[str], rpc: str, *, names_a_key: bool) -> str | None:
        """Returns the reason why a caller with these identities may not make a call; None if it may.

        A caller that acts for keys must name one wherever the RPC belongs to keys: without one nothing would limit
        which runs and workflows it sees.
        """
        grant = functools.reduce(Grant.__or__, (self._grants.get(name, Grant()) for name in identities), Grant())
        if rpc not in grant.rpcs and rpc.split("/")[1] not in grant.services:
            return f"The certificate's identity may not call {rpc}."
        if (names_a_key or rpc in self._naming_keys) and not grant.acts_for_keys:
            return "The certificate's identity may not act for a key."
        if not names_a_key and grant.acts_for_keys and rpc in self._of_keys:
            return f"The certificate's identity must name the key for which it calls {rpc}."
        return None

    def _grant(self, identity: str, name: str) -> Grant:
        grant = self._known.get(name)
        if grant is None:
            raise ValueError(f"The identity {identity} is given '{name}', which is no service, RPC or role.")
        return grant


def edge_rpcs(rpcs: Mapping[str, options_pb2.MethodRules]) -> frozenset[str]:
    """Returns the RPCs among `rpcs` that an edge calls, for itself or for keys."""
    return _role_grant(_EDGE, rpcs).rpcs


def _role_grant(role: options_pb2.CallerRole.ValueType, rpcs: Mapping[str, options_pb2.MethodRules]) -> Grant:
    """Returns the grant of a role: the RPCs that the protos state, and the health service if the role watches it."""
    roles = {role, options_pb2.CALLER_ROLE_ADMINISTRATION} if role == _CONSOLE else {role}
    return Grant(
        frozenset(
            rpc
            for rpc, rules in rpcs.items()
            if roles.intersection(rules.callers) or (role == _EDGE and rules.access != options_pb2.ACCESS_INTERNAL)
        ),
        frozenset({health.SERVICE_NAME}) if role in _WATCH_HEALTH else frozenset(),
        acts_for_keys=role == _EDGE,
    )


def _spelling(role: options_pb2.CallerRole.ValueType) -> str:
    return options_pb2.CallerRole.Name(role).removeprefix("CALLER_ROLE_").lower()


class AccessInterceptor(grpc.ServerInterceptor):
    """Refuses calls that the caller's certificate has no grant for with PERMISSION_DENIED, before any servicer."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._guarded: dict[str, Any] = {}

    def intercept_service(self, continuation: Callable[[Any], Any], details: Any) -> Any:
        """Puts the check before the handler of the call; an RPC that does not exist has no handler."""
        rpc: str = details.method
        guarded = self._guarded.get(rpc)
        if guarded is None:
            handler = continuation(details)
            if handler is not None:
                guarded = self._guarded[rpc] = _with_check(handler, functools.partial(self._check, rpc))
        return guarded

    def _check(self, rpc: str, context: grpc.ServicerContext) -> None:
        identities = identities_of(context)
        refusal = self._access.refusal(identities, rpc, names_a_key=principal_of(context).key_id is not None)
        if refusal is not None:
            _LOG.warning("%s was refused: %s", ", ".join(identities) or "A certificate without a name", refusal)
            context.abort(grpc.StatusCode.PERMISSION_DENIED, refusal)


def identities_of(context: grpc.ServicerContext) -> list[str]:
    """Returns the names in the caller's certificate, as settings write them."""
    proven: Mapping[str, Any] = context.auth_context()
    return [
        *(f"dns:{name.decode().lower()}" for name in proven.get("peer_dns", ())),
        *(f"uri:{name.decode()}" for name in proven.get("peer_uri", ())),
    ]


def _with_check(handler: Any, check: Callable[[grpc.ServicerContext], None]) -> Any:
    kinds = ("unary_unary", "unary_stream", "stream_unary", "stream_stream")
    (kind,) = (kind for kind in kinds if getattr(handler, kind) is not None)
    behaviour = getattr(handler, kind)

    # grpc looks for attributes on a behaviour, such as its pool, so they are copied; a non-blocking one also gets
    # `send`.
    @functools.wraps(behaviour)
    def checked(request: Any, context: grpc.ServicerContext, *send: Any) -> Any:
        check(context)
        return behaviour(request, context, *send)

    return handler._replace(**{kind: checked})
