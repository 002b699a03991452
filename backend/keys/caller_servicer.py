"""CallerService over gRPC."""

import grpc

from backend.errors import ApiError
from backend.keys.caller_key_cache import CallerKeyCache
from backend.rpc.interceptors import caller_of
from backend.services import Services
from workflow_api.v1 import caller_pb2, caller_pb2_grpc, errors_pb2, keys_pb2


class CallerServicer(caller_pb2_grpc.CallerServiceServicer):
    """Answers a key's caller about that key."""

    def __init__(self, services: Services) -> None:
        self._keys = CallerKeyCache(services)

    def GetMe(self, request: caller_pb2.GetMeRequest, context: grpc.ServicerContext) -> keys_pb2.ApiKey:
        """Returns the calling key and its live counters."""
        key = self._keys.get(caller_of(context).key_id or "")
        if key is None:
            raise ApiError(errors_pb2.ERROR_REASON_UNAUTHORIZED)
        return key
