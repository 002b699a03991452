"""UsageService over gRPC."""

from typing import Final

import grpc

from backend.clock import DAY_MS, MAX_MS, first_millisecond_from
from backend.errors import invalid
from backend.keys import usage_hours_sql, usage_sql
from backend.paging import Paging
from backend.services import Services
from contract.times import to_timestamp
from workflow_api.v1 import usage_pb2, usage_pb2_grpc

_LONGEST_COUNTED_MS: Final = 7 * DAY_MS


class UsageServicer(usage_pb2_grpc.UsageServiceServicer):
    """Shows administrators how keys were used."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def ListUsageRecords(
        self, request: usage_pb2.ListUsageRecordsRequest, context: grpc.ServicerContext
    ) -> usage_pb2.ListUsageRecordsResponse:
        """Returns usage records, newest first."""
        key_id = request.key_id if request.HasField("key_id") else None
        since = first_millisecond_from(request.since)
        paging = Paging(self._services.cursors, request)
        rows = self._services.database.read(
            lambda tx: usage_sql.newest(tx, key_id=key_id, since=since, after=paging.after, limit=paging.rows_to_read)
        )
        shown, token = paging.cut(rows, lambda row: (row.at, row.batch_id, row.position))
        return usage_pb2.ListUsageRecordsResponse(
            items=[
                usage_pb2.UsageRecord(
                    at=to_timestamp(row.at),
                    key_id=row.key_id,
                    method=row.method,
                    route=row.route,
                    status=row.status,
                    address=row.address,
                    reason=row.reason,
                    request_id=row.request_id,
                    duration_us=row.duration_us,
                    calls=row.calls if row.calls > 1 else None,
                )
                for row in shown
            ],
            next_page_token=token,
        )

    def ListUsageHours(
        self, request: usage_pb2.ListUsageHoursRequest, context: grpc.ServicerContext
    ) -> usage_pb2.ListUsageHoursResponse:
        """Returns usage records counted by the hour, the newest hour first."""
        key_id = request.key_id if request.HasField("key_id") else None
        since = first_millisecond_from(request.since)
        until = first_millisecond_from(request.until) if request.HasField("until") else MAX_MS
        paging = Paging(self._services.cursors, request)
        rows = self._services.database.read(
            lambda tx: usage_hours_sql.hours(
                tx, key_id=key_id, since=since, until=until, after=paging.after, limit=paging.rows_to_read
            )
        )
        shown, token = paging.cut(rows, lambda row: (row.hour, row.key_id, row.method, row.route, row.status))
        return usage_pb2.ListUsageHoursResponse(
            items=[
                usage_pb2.UsageHour(
                    hour=to_timestamp(row.hour),
                    key_id=row.key_id,
                    method=row.method,
                    route=row.route,
                    status=row.status,
                    calls=row.calls,
                )
                for row in shown
            ],
            next_page_token=token,
        )

    def CountCallsByKey(
        self, request: usage_pb2.CountCallsByKeyRequest, context: grpc.ServicerContext
    ) -> usage_pb2.CountCallsByKeyResponse:
        """Returns how many calls keys made in each hour, the newest hour first."""
        since, until = first_millisecond_from(request.since), first_millisecond_from(request.until)
        if until - since > _LONGEST_COUNTED_MS:
            raise invalid("until", "must be at most 7 days after since")
        rows = self._services.database.read(
            lambda tx: usage_hours_sql.of_keys(tx, request.key_ids, since=since, until=until)
        )
        return usage_pb2.CountCallsByKeyResponse(
            items=[
                usage_pb2.KeyHour(hour=to_timestamp(row.hour), key_id=row.key_id, calls=row.calls, refused=row.refused)
                for row in rows
            ]
        )
