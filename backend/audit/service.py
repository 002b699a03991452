"""Pages of the audit trail. (contract 22.10)."""

from typing import Any, Final

from backend.audit import sql
from backend.clock import DAY_MS, first_millisecond_from, to_timestamp
from backend.errors import invalid
from backend.services import Services
from contract.defaults import given_or_default
from workflow_api.v1 import audit_pb2

_ROUTE: Final = "audit"
_WINDOW_MS: Final = 90 * DAY_MS


def audit_page(services: Services, request: audit_pb2.ListAuditRecordsRequest) -> audit_pb2.ListAuditRecordsResponse:
    """Returns a page of audit records, newest first.

    Raises:
        ApiError: `invalid_request` for a window of 90 days or more, `invalid_cursor`.
    """
    until = first_millisecond_from(request.until) if request.HasField("until") else services.clock() + 1
    since = first_millisecond_from(request.since) if request.HasField("since") else max(0, until - _WINDOW_MS + 1)
    if until - since >= _WINDOW_MS:
        raise invalid("since", "must be less than 90 days before until, which is now where it is absent")
    after: list[Any] = [until, ""]
    if request.page_token:
        after = services.cursors.read(_ROUTE, None, request.page_token)
    limit = given_or_default(request, "page_size")
    target = request.target if request.HasField("target") else None
    rows = services.database.read(
        lambda tx: sql.trail(tx, since=since, before=after[0], before_id=after[1], target=target, limit=limit + 1)
    )
    shown = rows[:limit]
    more = len(rows) > limit
    return audit_pb2.ListAuditRecordsResponse(
        items=[
            audit_pb2.AuditRecord(
                at=to_timestamp(row.at), actor=row.actor, action=row.action, target=row.target, details=row.details
            )
            for row in shown
        ],
        next_page_token=services.cursors.issue(_ROUTE, None, (shown[-1].at, shown[-1].audit_id)) if more else None,
    )
