"""AuditService over gRPC."""

from collections.abc import Iterator

import grpc

from backend.audit.service import AuditTrail
from backend.rpc.interceptors import caller_of
from backend.services import Services
from workflow_api.v1 import audit_pb2, audit_pb2_grpc


class AuditServicer(audit_pb2_grpc.AuditServiceServicer):
    """Shows administrators the audit trail."""

    def __init__(self, services: Services) -> None:
        self._trail = AuditTrail(services)

    def ListAuditRecords(
        self, request: audit_pb2.ListAuditRecordsRequest, context: grpc.ServicerContext
    ) -> audit_pb2.ListAuditRecordsResponse:
        """Returns audit records, newest first."""
        return self._trail.page(request)

    def ExportAuditRecords(
        self, request: audit_pb2.ExportAuditRecordsRequest, context: grpc.ServicerContext
    ) -> Iterator[audit_pb2.ExportAuditRecordsResponse]:
        """Yields audit records, newest first."""
        yield from self._trail.export(request, caller_of(context).audit_name, context.is_active)
