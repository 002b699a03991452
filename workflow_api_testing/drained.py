"""Answers of the RPCs of grpc_testing's server, by its public methods."""

from typing import Any

import grpc
from google.protobuf.message import Message

from workflow_api_testing.refusals import RefusedError, read_refusal


def response_of(rpc: Any) -> Any:
    """Returns the answer of a unary RPC, once it has ended.

    Raises:
        RefusedError: it was refused.
    """
    response, *ending = rpc.termination()
    _raise_refusal(*ending)
    return response


def responses_of(rpc: Any) -> list[Any]:
    """Returns the messages of a streaming RPC that nobody took yet, once it has ended.

    Raises:
        RefusedError: it was refused.
    """
    _raise_refusal(*rpc.termination())
    responses: list[Message] = []
    while True:
        try:
            responses.append(rpc.take_response())
        except ValueError:
            # What grpc_testing raises where an RPC has ended and every message was taken.
            return responses


def _raise_refusal(trailers: Any, code: grpc.StatusCode | None, details: str) -> None:
    if code not in {None, grpc.StatusCode.OK}:
        assert code is not None
        raise RefusedError(read_refusal(trailers or (), code, details))
