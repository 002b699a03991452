"""LogsService over gRPC."""

from collections.abc import Iterator

import grpc

from backend.logs.service import Logs
from workflow_api.v1 import logs_pb2, logs_pb2_grpc


class LogsServicer(logs_pb2_grpc.LogsServiceServicer):
    """Shows people what steps print."""

    def __init__(self, logs: Logs) -> None:
        self._logs = logs

    def ListRunLogs(
        self, request: logs_pb2.ListRunLogsRequest, context: grpc.ServicerContext
    ) -> logs_pb2.ListRunLogsResponse:
        """Returns which logs a run has."""
        return self._logs.summaries(request)

    def GetRunLog(self, request: logs_pb2.GetRunLogRequest, context: grpc.ServicerContext) -> logs_pb2.RunLog:
        """Returns one log as far as it was printed."""
        return self._logs.log(request)

    def StreamRunLogs(
        self, request: logs_pb2.StreamRunLogsRequest, context: grpc.ServicerContext
    ) -> Iterator[logs_pb2.StreamRunLogsResponse]:
        """Yields logs as text, and goes on as long as the caller follows a run that has not ended."""
        yield from self._logs.stream(request, context.is_active)
