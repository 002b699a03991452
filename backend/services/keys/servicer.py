"""KeysService, CallerService and UsageService over gRPC: keys and their usage, for administrators and for callers."""

from typing import Final

import grpc

from backend.common.clock import DAY_MS, MAX_MS, first_millisecond_from, utc_day
from backend.common.errors import ApiError, invalid
from backend.common.paging import Paging
from backend.common.waits import KeyChanges
from backend.rpc.answer_cache import Dependence, cacheable
from backend.rpc.callers import principal_of
from backend.services.dependencies import Services
from backend.services.keys import sql, usage_sql
from backend.services.keys.administration import IssuedKey, KeyAdministration, key_not_found
from backend.services.keys.messages import api_key, found_key, key_record
from backend.storage.database import Tx
from contract.fields import given_or_default
from contract.times import to_timestamp
from workflow_api.v1 import caller_pb2, caller_pb2_grpc, errors_pb2, keys_pb2, keys_pb2_grpc, usage_pb2, usage_pb2_grpc


class KeysServicer(keys_pb2_grpc.KeysServiceServicer):
    """Administers keys."""

    def __init__(self, services: Services, changes: KeyChanges) -> None:
        self._services = services
        self._administration = KeyAdministration(services, changes)

    def CreateKey(self, request: keys_pb2.CreateKeyRequest, context: grpc.ServicerContext) -> keys_pb2.KeyCredentials:
        """Creates a key and shows its credentials once."""
        return self._credentials(self._administration.create(request, principal_of(context).audit_name))

    def GetKey(self, request: keys_pb2.GetKeyRequest, context: grpc.ServicerContext) -> keys_pb2.KeyRecord:
        """Returns one key as the administrator sees it."""

        def work(tx: Tx) -> sql.KeyRow:
            row = sql.get(tx, request.key_id, self._today())
            if row is None:
                raise key_not_found(tx, request.key_id)
            return row

        return key_record(self._services.database.snapshot(work), self._services.clock())

    def ListKeys(self, request: keys_pb2.ListKeysRequest, context: grpc.ServicerContext) -> keys_pb2.ListKeysResponse:
        """Returns keys, newest first."""
        paging = Paging(self._services.cursors, request)
        created_at, key_id = paging.after or (MAX_MS, "")
        now = self._services.clock()
        rows = self._services.database.read(
            lambda tx: sql.newest(
                tx, utc_day(now), before=int(created_at), before_id=str(key_id), limit=paging.rows_to_read
            )
        )
        shown, token = paging.cut(rows, lambda row: (row.created_at, row.key_id))
        return keys_pb2.ListKeysResponse(items=[key_record(row, now) for row in shown], next_page_token=token)

    def FindKeys(self, request: keys_pb2.FindKeysRequest, context: grpc.ServicerContext) -> keys_pb2.FindKeysResponse:
        """Returns keys by a part of name, id or description."""
        most = given_or_default(request, "most")
        rows = self._services.database.read(lambda tx: sql.search(tx, request.text, most))
        now = self._services.clock()
        return keys_pb2.FindKeysResponse(items=[found_key(row, now) for row in rows])

    def UpdateKey(self, request: keys_pb2.UpdateKeyRequest, context: grpc.ServicerContext) -> keys_pb2.KeyRecord:
        """Changes every field that is set."""
        return self._record(self._administration.update(request, principal_of(context).audit_name))

    def RotateKey(self, request: keys_pb2.RotateKeyRequest, context: grpc.ServicerContext) -> keys_pb2.KeyCredentials:
        """Issues a new secret and shows it once."""
        return self._credentials(self._administration.rotate(request, principal_of(context).audit_name))

    def EndKeyOverlap(
        self, request: keys_pb2.EndKeyOverlapRequest, context: grpc.ServicerContext
    ) -> keys_pb2.KeyRecord:
        """Ends the overlap in which a key has two secrets."""
        return self._record(self._administration.end_overlap(request.key_id, principal_of(context).audit_name))

    def IssueExternalId(
        self, request: keys_pb2.IssueExternalIdRequest, context: grpc.ServicerContext
    ) -> keys_pb2.KeyCredentials:
        """Issues a new external id and shows it once."""
        issued = self._administration.issue_external_id(request.key_id, principal_of(context).audit_name)
        return self._credentials(issued)

    def RevokeKey(self, request: keys_pb2.RevokeKeyRequest, context: grpc.ServicerContext) -> keys_pb2.KeyRecord:
        """Ends a key for good."""
        return self._record(self._administration.revoke(request.key_id, principal_of(context).audit_name))

    def DeleteKey(
        self, request: keys_pb2.DeleteKeyRequest, context: grpc.ServicerContext
    ) -> keys_pb2.DeleteKeyResponse:
        """Removes a revoked key."""
        self._administration.delete(request.key_id, principal_of(context).audit_name)
        return keys_pb2.DeleteKeyResponse()

    def _today(self) -> int:
        return utc_day(self._services.clock())

    def _record(self, issued: IssuedKey) -> keys_pb2.KeyRecord:
        return key_record(issued.row, self._services.clock())

    def _credentials(self, issued: IssuedKey) -> keys_pb2.KeyCredentials:
        return keys_pb2.KeyCredentials(
            record=self._record(issued), key_value=issued.key_value, external_id=issued.external_id
        )


class CallerServicer(caller_pb2_grpc.CallerServiceServicer):
    """Shows a caller its own key."""

    def __init__(self, services: Services) -> None:
        self._database = services.database
        self._clock = services.clock

    @cacheable(Dependence(of_run=False, of_day=True))
    def GetMe(self, request: caller_pb2.GetMeRequest, context: grpc.ServicerContext) -> keys_pb2.ApiKey:
        """Returns the calling key and its live counters."""
        key_id, day = principal_of(context).key_id or "", utc_day(self._clock())
        row = self._database.read(lambda tx: sql.get_for_caller(tx, key_id, day))
        if row is None:
            raise ApiError(errors_pb2.ERROR_REASON_UNAUTHORIZED)
        return api_key(row)


_LONGEST_COUNTED_MS: Final = 7 * DAY_MS


class UsageServicer(usage_pb2_grpc.UsageServiceServicer):
    """Shows administrators the usage of keys."""

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
            lambda tx: usage_sql.hours(
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
        """Returns the number of calls of keys in each hour, the newest hour first."""
        since, until = first_millisecond_from(request.since), first_millisecond_from(request.until)
        if until - since > _LONGEST_COUNTED_MS:
            raise invalid("until", "must be at most 7 days after since")
        rows = self._services.database.read(lambda tx: usage_sql.of_keys(tx, request.key_ids, since=since, until=until))
        return usage_pb2.CountCallsByKeyResponse(
            items=[
                usage_pb2.KeyHour(hour=to_timestamp(row.hour), key_id=row.key_id, calls=row.calls, refused=row.refused)
                for row in rows
            ]
        )
