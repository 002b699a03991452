"""The codecs of each route: of its request, and of its answer."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from contract.json_codec.response import ResponseCodec
from contract.routes import Route
from edge.codec.request import RequestCodec
from workflow_api.v1.options_pb2 import method_rules


class RouteCodecs(NamedTuple):
    """Codecs of one route; a streaming RPC's answer is no JSON and has none."""

    request: RequestCodec
    response: ResponseCodec | None


CodecsByRpc = Mapping[str, RouteCodecs]


def codecs_of(routes: Iterable[Route]) -> CodecsByRpc:
    """Returns the codecs of routes, by the names of their RPCs.

    Raises:
        ValueError: the RPC of a route lacks something that its request or its answer needs.
    """
    return MappingProxyType({route.rpc: _codecs(route) for route in routes})


def _codecs(route: Route) -> RouteCodecs:
    rpc = route.descriptor
    remembered = rpc.GetOptions().Extensions[method_rules].remembered
    return RouteCodecs(
        RequestCodec(rpc, route.path_names, takes_body=route.takes_body),
        None if route.streaming else ResponseCodec(rpc.output_type, remembered=remembered),
    )
