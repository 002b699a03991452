"""AuditService over gRPC."""

import grpc

from backend.audit.service import audit_page
from backend.services import Services
from workflow_api.v1 import audit_pb2, audit_pb2_grpc


class AuditServicer(audit_pb2_grpc.AuditServiceServicer):
    """Shows administrators the audit trail."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def ListAuditRecords(
        self, request: audit_pb2.ListAuditRecordsRequest, context: grpc.ServicerContext
    ) -> audit_pb2.ListAuditRecordsResponse:
        """Returns audit records, newest first."""
        return audit_page(self._services, request)
