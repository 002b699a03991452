"""Channels that add metadata to every call."""

from collections.abc import Callable, Mapping
from typing import Any

import grpc


class _Metadata(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor):
    def __init__(self, metadata: Mapping[str, str]) -> None:
        self._metadata = tuple(metadata.items())

    def intercept_unary_unary(self, continuation: Callable[..., Any], details: Any, request: Any) -> Any:
        return continuation(self._extended(details), request)

    def intercept_unary_stream(self, continuation: Callable[..., Any], details: Any, request: Any) -> Any:
        return continuation(self._extended(details), request)

    def _extended(self, details: Any) -> Any:
        return details._replace(metadata=(*(details.metadata or ()), *self._metadata))


def with_metadata(channel: grpc.Channel, metadata: Mapping[str, str]) -> grpc.Channel:
    """Returns the channel with this metadata in each call."""
    return grpc.intercept_channel(channel, _Metadata(metadata)) if metadata else channel
