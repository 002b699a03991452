"""Several point reads of keys in one call.

The cost of a gRPC call itself, on both sides, is several times that of a point read, so an edge sends reads that are
due at once together. (`python -m benchmarks`: edge and backend apart)
"""

from collections.abc import Mapping
from typing import Final

from google.protobuf.message import DecodeError

from backend.common.errors import ApiError
from backend.rpc.interceptors import Handler
from contract.local_context import LocalContext
from contract.metadata import KEY_ID, REQUEST_ID
from workflow_api.v1.edge_pb2 import KeyRead, KeyReadAnswer, ReadManyRequest, ReadManyResponse
from workflow_api.v1.errors_pb2 import ERROR_REASON_INVALID_REQUEST
from workflow_api.v1.options_pb2 import ACCESS_ANY_KEY, ACCESS_SCOPE

RPC: Final = "/workflow_api.v1.EdgeService/ReadMany"
_OF_KEYS: Final = frozenset({ACCESS_ANY_KEY, ACCESS_SCOPE})


class BatchReads:
    """Makes point reads by the handlers of their RPCs, one after the other."""

    def __init__(self) -> None:
        self._handlers: Mapping[str, Handler] = {}

    def serve(self, handlers: Mapping[str, Handler]) -> None:
        """Takes the handlers of all RPCs; uses those that are point reads of keys."""
        self._handlers = {
            rpc: handler
            for rpc, handler in handlers.items()
            if handler.rules.point_read and handler.runs_inline is not None and handler.rules.access in _OF_KEYS
        }

    def answer(self, request: ReadManyRequest) -> ReadManyResponse:
        """Returns the outcome of each read; raises ApiError `invalid_request` if one is no point read of a key."""
        return ReadManyResponse(answers=map(self._read, request.reads))

    def _read(self, read: KeyRead) -> KeyReadAnswer:
        handler = self._handlers.get(read.rpc)
        if handler is None:
            raise _invalid("rpc", "must be a point read of keys")
        if not read.key_id:
            raise _invalid("key_id", "is required")
        try:
            request = handler.request_class.FromString(read.request)
        except DecodeError:
            raise _invalid("request", "must be a request of that RPC") from None
        context = LocalContext(((KEY_ID, read.key_id), (REQUEST_ID, read.request_id)))
        response = handler.answer(request, context)
        if context.error is not None:
            return KeyReadAnswer(refusal=context.error.to_status().SerializeToString(deterministic=True))
        return KeyReadAnswer(response=response.SerializeToString())


def _invalid(name: str, reason: str) -> ApiError:
    return ApiError(ERROR_REASON_INVALID_REQUEST, problems=[(f"reads.{name}", reason)])
