"""Pages of the audit trail (contract 22.10)."""

from typing import Final

from backend.audit import sql
from backend.clock import DAY_MS, first_millisecond_from
from backend.errors import invalid
from backend.paging import Paging
from backend.services import Services
from contract.times import to_timestamp
from workflow_api.v1 import audit_pb2

_WINDOW_MS: Final = 90 * DAY_MS


def audit_page(services: Services, request: audit_pb2.ListAuditRecordsRequest) -> audit_pb2.ListAuditRecordsResponse:
    """Returns a page of audit records, newest first.

    Raises:
        ApiError: `invalid_request` for a window of 90 days or more, or a token of another list.
    """
    until = first_millisecond_from(request.until) if request.HasField("until") else services.clock() + 1
    since = first_millisecond_from(request.since) if request.HasField("since") else max(0, until - _WINDOW_MS + 1)
    if until - since >= _WINDOW_MS:
        raise invalid("since", "must be less than 90 days before until, which is now where it is absent")
    paging = Paging(services.cursors, request)
    before, before_id = paging.after or (until, "")
    target = request.target if request.HasField("target") else None
    rows = services.database.read(
        lambda tx: sql.trail(
            tx, since=since, before=int(before), before_id=str(before_id), target=target, limit=paging.rows_to_read
        )
    )
    shown, token = paging.cut(rows, lambda row: (row.at, row.audit_id))
    return audit_pb2.ListAuditRecordsResponse(
        items=[
            audit_pb2.AuditRecord(
                at=to_timestamp(row.at), actor=row.actor, action=row.action, target=row.target, details=row.details
            )
            for row in shown
        ],
        next_page_token=token,
    )
