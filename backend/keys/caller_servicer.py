"""CallerService over gRPC."""

import grpc

from backend.answer_cache import Dependence, cacheable
from backend.clock import utc_day
from backend.errors import ApiError
from backend.keys import sql
from backend.keys.messages import api_key
from backend.rpc.interceptors import caller_of
from backend.services import Services
from workflow_api.v1 import caller_pb2, caller_pb2_grpc, errors_pb2, keys_pb2


class CallerServicer(caller_pb2_grpc.CallerServiceServicer):
    """Answers a key's caller about that key."""

    def __init__(self, services: Services) -> None:
        self._database = services.database
        self._clock = services.clock

    @cacheable(Dependence(of_run=False, of_day=True))
    def GetMe(self, request: caller_pb2.GetMeRequest, context: grpc.ServicerContext) -> keys_pb2.ApiKey:
        """Returns the calling key and its live counters."""
        key_id, day = caller_of(context).key_id or "", utc_day(self._clock())
        row = self._database.read(lambda tx: sql.seen_by_caller(tx, key_id, day))
        if row is None:
            raise ApiError(errors_pb2.ERROR_REASON_UNAUTHORIZED)
        return api_key(row)
