"""AuditService over gRPC: pages of the audit trail, and exports of it, for administrators (contract 22.10)."""

from collections.abc import Callable, Iterator
from threading import BoundedSemaphore
from typing import Final, NamedTuple

import grpc

from backend.common.clock import DAY_MS, first_millisecond_from
from backend.common.errors import ApiError, invalid
from backend.common.paging import Paging
from backend.rpc.callers import principal_of
from backend.services.audit import sql
from backend.services.dependencies import Services
from backend.storage.tables.deployment import AuditRow
from contract.times import to_timestamp
from workflow_api.v1 import audit_pb2, audit_pb2_grpc, errors_pb2

MOST_EXPORTED: Final = 100_000
MOST_EXPORTS: Final = 2

_WINDOW_MS: Final = 90 * DAY_MS
EXPORT_BATCH: Final = 500
"""Most records read in one query of an export."""


class _AuditSearch(NamedTuple):
    """Filters and time window of a search, in milliseconds; `until` is exclusive."""

    filters: sql.Filters
    since: int
    until: int


class AuditTrail:
    """Reads the audit trail for administrators."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._exports = BoundedSemaphore(MOST_EXPORTS)

    def page(self, request: audit_pb2.ListAuditRecordsRequest) -> audit_pb2.ListAuditRecordsResponse:
        """Returns a page of audit records, newest first.

        Raises:
            ApiError: `invalid_request` for a window of 90 days or more, or a token of another list.
        """
        search = self._search(request)
        paging = Paging(self._services.cursors, request)
        at, audit_id = paging.after or (search.until, "")
        before = sql.AuditPosition(int(at), str(audit_id))
        rows, stopped = self._services.database.snapshot(
            lambda tx: sql.trail(tx, search.filters, since=search.since, before=before, limit=paging.rows_to_read)
        )
        shown, token = paging.cut(rows, lambda row: (row.at, row.audit_id))
        if token is None and stopped is not None:
            token = paging.token_after(stopped)
        return audit_pb2.ListAuditRecordsResponse(items=map(_message, shown), next_page_token=token)

    def export(
        self, request: audit_pb2.ExportAuditRecordsRequest, actor: str, is_active: Callable[[], bool]
    ) -> Iterator[audit_pb2.ExportAuditRecordsResponse]:
        """Yields the records, after auditing the export.

        Raises:
            ApiError: `invalid_request` as for a page; `rate_limited` while too many other exports are under way.
        """
        search = self._search(request)
        if not self._exports.acquire(blocking=False):
            raise ApiError(
                errors_pb2.ERROR_REASON_RATE_LIMITED,
                f"{MOST_EXPORTS} exports are under way; try again when one has ended.",
                retry_after=10,
            )
        try:
            self._audit(search, actor)
            yield from self._batches(search, is_active)
        finally:
            self._exports.release()

    def _batches(
        self, search: _AuditSearch, is_active: Callable[[], bool]
    ) -> Iterator[audit_pb2.ExportAuditRecordsResponse]:
        left, before = MOST_EXPORTED, sql.AuditPosition(search.until, "")
        while is_active():
            limit, after = min(EXPORT_BATCH, left), before
            rows, stopped = self._services.database.snapshot(
                lambda tx, limit=limit, after=after: sql.trail(  # type: ignore[misc]
                    tx, search.filters, since=search.since, before=after, limit=limit + 1
                )
            )
            shown = rows[:limit]
            left -= len(shown)
            message = audit_pb2.ExportAuditRecordsResponse(items=map(_message, shown))
            if len(rows) > limit:
                before = sql.AuditPosition(shown[-1].at, shown[-1].audit_id)
            elif stopped is not None:
                before = stopped
            else:
                yield message
                return
            if not left:
                message.more_until.CopyFrom(to_timestamp(before.at))
                yield message
                return
            yield message

    def _search(self, request: audit_pb2.ListAuditRecordsRequest | audit_pb2.ExportAuditRecordsRequest) -> _AuditSearch:
        until = first_millisecond_from(request.until) if request.HasField("until") else self._services.clock() + 1
        since = first_millisecond_from(request.since) if request.HasField("since") else max(0, until - _WINDOW_MS + 1)
        if until - since >= _WINDOW_MS:
            raise invalid("since", "must be less than 90 days before until, which is now where it is absent")
        filters = sql.Filters(
            target=request.target if request.HasField("target") else None,
            actor=request.actor if request.HasField("actor") else None,
            action=request.action if request.HasField("action") else None,
            text=request.search,
        )
        return _AuditSearch(filters, since, until)

    def _audit(self, search: _AuditSearch, actor: str) -> None:
        services = self._services
        asked = {name: value for name, value in search.filters._asdict().items() if value}
        details = {"since": search.since, "until": search.until, **asked}
        services.database.write(
            lambda tx: sql.record(
                tx,
                at=services.clock(),
                actor=actor,
                action="audit.exported",
                target=services.deployment_id,
                details=details,
            ),
            lock_key="audit",
        )


def _message(row: AuditRow) -> audit_pb2.AuditRecord:
    return audit_pb2.AuditRecord(
        at=to_timestamp(row.at), actor=row.actor, action=row.action, target=row.target, details=row.details
    )


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
        yield from self._trail.export(request, principal_of(context).audit_name, context.is_active)
