"""Tables of all RPCs, and of the routes of the API from the `google.api.http` options of the protos (contract 3.1)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

from google.api.annotations_pb2 import http
from google.api.http_pb2 import HttpRule
from google.protobuf.descriptor import FileDescriptor, MethodDescriptor
from google.protobuf.descriptor_pb2 import MethodOptions

from contract.fields import names_in
from contract.refusals import BY_CODE, Refusal, code_of
from workflow_api.v1 import (
    audit_pb2,
    caller_pb2,
    definitions_pb2,
    deployment_health_pb2,
    deployment_pb2,
    edge_pb2,
    environments_pb2,
    keys_pb2,
    logs_pb2,
    model_usage_pb2,
    outputs_pb2,
    passkeys_pb2,
    previews_pb2,
    reviews_pb2,
    run_lists_pb2,
    runs_pb2,
    schedules_pb2,
    sessions_pb2,
    uploads_pb2,
    usage_pb2,
    users_pb2,
    webhooks_pb2,
    workflows_pb2,
)
from workflow_api.v1.options_pb2 import (
    ACCESS_ANY_KEY,
    ACCESS_INTERNAL,
    ACCESS_PUBLIC,
    ACCESS_SCOPE,
    SCOPE_UNSPECIFIED,
    Access,
    MethodRules,
    Scope,
    method_rules,
)

FILES: Final[tuple[FileDescriptor, ...]] = (
    deployment_pb2.DESCRIPTOR,
    deployment_health_pb2.DESCRIPTOR,
    audit_pb2.DESCRIPTOR,
    caller_pb2.DESCRIPTOR,
    keys_pb2.DESCRIPTOR,
    usage_pb2.DESCRIPTOR,
    edge_pb2.DESCRIPTOR,
    workflows_pb2.DESCRIPTOR,
    environments_pb2.DESCRIPTOR,
    definitions_pb2.DESCRIPTOR,
    runs_pb2.DESCRIPTOR,
    run_lists_pb2.DESCRIPTOR,
    reviews_pb2.DESCRIPTOR,
    logs_pb2.DESCRIPTOR,
    model_usage_pb2.DESCRIPTOR,
    outputs_pb2.DESCRIPTOR,
    passkeys_pb2.DESCRIPTOR,
    previews_pb2.DESCRIPTOR,
    schedules_pb2.DESCRIPTOR,
    uploads_pb2.DESCRIPTOR,
    users_pb2.DESCRIPTOR,
    sessions_pb2.DESCRIPTOR,
    webhooks_pb2.DESCRIPTOR,
)

METHODS: Final[Mapping[str, MethodDescriptor]] = MappingProxyType(
    {
        f"/{service.full_name}/{method.name}": method
        for file in FILES
        for service in file.services_by_name.values()
        for method in service.methods
    }
)
"""Every method by its name on the wire, as `/workflow_api.v1.RunsService/GetRun`."""


BASE: Final = "/api/v1"
"""Prefix of every route's path."""

HEALTH: Final = BASE + "/health"
"""Route of the health check."""

_ROUTED: Final = frozenset({ACCESS_PUBLIC, ACCESS_ANY_KEY, ACCESS_SCOPE})
_VERBS: Final = ("get", "put", "post", "delete", "patch")


@dataclass(frozen=True, slots=True)
class Route:
    """One method on one path, and the RPC that it calls.

    `template` is the whole path as `/api/v1/runs/{run_id}`, and `path_names` are its names in braces. `rpc` is the name
    on the wire as `/workflow_api.v1.RunsService/GetRun`. `errors` are the codes that the RPC itself may refuse with. A
    streaming RPC's answer is no JSON.
    """

    method: str
    template: str
    path_names: tuple[str, ...]
    rpc: str
    descriptor: MethodDescriptor
    access: Access.ValueType
    scope: Scope.ValueType
    success_status: int
    takes_body: bool
    streaming: bool
    errors: tuple[str, ...]


class RouteMatch(NamedTuple):
    """A route, and the raw path segments that stand for its parameters."""

    route: Route
    path_params: Mapping[str, str]


class RouteTable:
    """Finds the route of a call.

    Raises:
        ValueError: an RPC declares no access, or its route is invalid.
    """

    def __init__(self, methods: Mapping[str, MethodDescriptor] = METHODS) -> None:
        self.routes: tuple[Route, ...] = tuple(_routes(methods))
        self._root = _Node()
        for route in self.routes:
            self._root.add(route)
        self._plain = {
            (route.method, route.template): RouteMatch(route, {}) for route in self.routes if not route.path_names
        }

    def match(self, http_method: str, raw_path: str) -> RouteMatch:
        """Returns the route of a method and a path as sent, without the query.

        Nothing of the path is decoded, so that `%2F` never makes a segment; the codec decodes the parameters.

        Raises:
            Refusal: `not_found`, or `method_not_allowed` with `Allow`.
        """
        plain = self._plain.get((http_method, raw_path))
        if plain is not None:
            return plain
        node = self._root
        values: list[str] = []
        for segment in raw_path.split("/"):
            child = node.children.get(segment)
            if child is None:
                child = node.parameter
                if child is None or not segment:
                    raise Refusal("not_found")
                values.append(segment)
            node = child
        route = node.methods.get(http_method)
        if route is None:
            if not node.methods:
                raise Refusal("not_found")
            raise Refusal("method_not_allowed", headers={"Allow": ", ".join(sorted(node.methods))})
        return RouteMatch(route, dict(zip(route.path_names, values, strict=True)))


class _Node:
    """Node of the routes' prefix tree: the segments that may follow."""

    def __init__(self) -> None:
        self.children: dict[str, _Node] = {}
        self.parameter: _Node | None = None
        self.methods: dict[str, Route] = {}

    def add(self, route: Route) -> None:
        node = self
        for segment in route.template.split("/"):
            node = node._follow(segment)
        if route.method in node.methods:
            raise ValueError(f"{route.rpc}: {route.method} {route.template} is another RPC's route")
        node.methods[route.method] = route

    def _follow(self, segment: str) -> "_Node":
        if names_in(segment):
            self.parameter = self.parameter or _Node()
            child = self.parameter
        else:
            child = self.children.setdefault(segment, _Node())
        if self.children and self.parameter:
            raise ValueError(f"a parameter and `{segment}` at the same place of a path: which one a call means is open")
        return child


def _routes(methods: Mapping[str, MethodDescriptor]) -> Iterator[Route]:
    for name, descriptor in methods.items():
        options: MethodOptions = descriptor.GetOptions()
        rules: MethodRules = options.Extensions[method_rules]
        rule: HttpRule = options.Extensions[http]  # type: ignore[index] # its stub calls the extension a descriptor
        _check_access(name, rules, routed=rule.WhichOneof("pattern") is not None)
        if rules.access in _ROUTED:
            yield _route(name, descriptor, rules, rule)


def _check_access(name: str, rules: MethodRules, *, routed: bool) -> None:
    if rules.access not in {ACCESS_INTERNAL, *_ROUTED}:
        raise ValueError(f"{name}: declares no access")
    if routed != (rules.access in _ROUTED):
        raise ValueError(f"{name}: an RPC has a route if and only if callers from outside may call it")
    if (rules.access == ACCESS_SCOPE) != (rules.scope != SCOPE_UNSPECIFIED):
        raise ValueError(f"{name}: ACCESS_SCOPE needs a scope, and no other access has one")


def _route(name: str, descriptor: MethodDescriptor, rules: MethodRules, rule: HttpRule) -> Route:
    verb = rule.WhichOneof("pattern")
    template = getattr(rule, verb or "")
    if verb not in _VERBS or not template.startswith(BASE + "/"):
        raise ValueError(f"{name}: its route is not a plain method under {BASE}")
    if rule.body not in {"", "*"} or rule.additional_bindings:
        raise ValueError(f"{name}: a route takes its whole body or none, and an RPC has one route")
    errors = tuple(code_of(reason) for reason in rules.errors)
    if not BY_CODE.keys() >= set(errors):
        raise ValueError(f"{name}: an error of it has no HTTP status")
    return Route(
        method=verb.upper(),
        template=template,
        path_names=names_in(template),
        rpc=name,
        descriptor=descriptor,
        access=rules.access,
        scope=rules.scope,
        success_status=rules.success_status or 200,
        takes_body=bool(rule.body),
        streaming=descriptor.server_streaming,
        errors=errors,
    )
