"""KeysService over gRPC."""

from collections.abc import Iterator

import grpc

from backend.clock import utc_day
from backend.deployment import sql as deployment_sql
from backend.errors import ApiError
from backend.ids import new_id
from backend.key_changes import KeyChanges
from backend.keys import sql, usage_sql
from backend.keys.messages import key_record, mirrored_key
from backend.keys.own_keys import OwnKeys
from backend.keys.service import Issued, KeyAdministration
from backend.rpc.interceptors import caller_of
from backend.services import Services
from backend.storage.database import Tx
from contract.defaults import given_or_default
from workflow_api.v1 import errors_pb2, keys_pb2, keys_pb2_grpc

_DEFAULT_HEARTBEAT_SECONDS = 5.0


class KeysServicer(keys_pb2_grpc.KeysServiceServicer):
    """Keys for callers, administrators and edges."""

    def __init__(self, services: Services, changes: KeyChanges, poll_seconds: float) -> None:
        self._services = services
        self._changes = changes
        self._poll_seconds = poll_seconds
        self._administration = KeyAdministration(services, changes)
        self._own_keys = OwnKeys(services)

    def GetMe(self, request: keys_pb2.GetMeRequest, context: grpc.ServicerContext) -> keys_pb2.ApiKey:
        """The calling key and its live counters."""
        key = self._own_keys.get(caller_of(context).key_id or "")
        if key is None:
            raise ApiError(errors_pb2.ERROR_REASON_UNAUTHORIZED)
        return key

    def CreateKey(self, request: keys_pb2.CreateKeyRequest, context: grpc.ServicerContext) -> keys_pb2.KeyCredentials:
        """Makes a key and shows its credentials once."""
        return self._credentials(self._administration.create(request, caller_of(context).audit_name))

    def GetKey(self, request: keys_pb2.GetKeyRequest, context: grpc.ServicerContext) -> keys_pb2.KeyRecord:
        """One key as the administrator sees it."""
        row = self._services.database.read(lambda tx: sql.get(tx, request.key_id, self._today()))
        if row is None:
            raise ApiError(errors_pb2.ERROR_REASON_NOT_FOUND, f"There is no key {request.key_id}.")
        return key_record(row, self._services.clock())

    def ListKeys(self, request: keys_pb2.ListKeysRequest, context: grpc.ServicerContext) -> keys_pb2.ListKeysResponse:
        """All keys, newest first."""
        rows = self._services.database.read(lambda tx: sql.all_records(tx, self._today()))
        now = self._services.clock()
        return keys_pb2.ListKeysResponse(items=[key_record(row, now) for row in rows])

    def EditKey(self, request: keys_pb2.EditKeyRequest, context: grpc.ServicerContext) -> keys_pb2.KeyRecord:
        """Changes what is set."""
        return self._record(self._administration.edit(request, caller_of(context).audit_name))

    def RotateKey(self, request: keys_pb2.RotateKeyRequest, context: grpc.ServicerContext) -> keys_pb2.KeyCredentials:
        """Issues a new secret and shows it once."""
        return self._credentials(self._administration.rotate(request, caller_of(context).audit_name))

    def IssueExternalId(
        self, request: keys_pb2.IssueExternalIdRequest, context: grpc.ServicerContext
    ) -> keys_pb2.KeyCredentials:
        """Issues a new external id and shows it once."""
        issued = self._administration.issue_external_id(request.key_id, caller_of(context).audit_name)
        return self._credentials(issued)

    def RevokeKey(self, request: keys_pb2.RevokeKeyRequest, context: grpc.ServicerContext) -> keys_pb2.KeyRecord:
        """Ends a key for good."""
        return self._record(self._administration.revoke(request.key_id, caller_of(context).audit_name))

    def DeleteKey(
        self, request: keys_pb2.DeleteKeyRequest, context: grpc.ServicerContext
    ) -> keys_pb2.DeleteKeyResponse:
        """Removes a revoked key."""
        self._administration.delete(request.key_id, caller_of(context).audit_name)
        return keys_pb2.DeleteKeyResponse()

    def GetKeyMirror(self, request: keys_pb2.GetKeyMirrorRequest, context: grpc.ServicerContext) -> keys_pb2.KeyMirror:
        """What an edge needs to admit calls."""
        return self._services.database.snapshot(_mirror)

    def WatchKeys(
        self, request: keys_pb2.WatchKeysRequest, context: grpc.ServicerContext
    ) -> Iterator[keys_pb2.KeyMirror]:
        """The mirror now, after each change, and as a sign of life in between."""
        heartbeat_ms = (request.heartbeat_seconds or _DEFAULT_HEARTBEAT_SECONDS) * 1000
        revision, sent_at = -1, 0
        while context.is_active() and not self._changes.ended:
            heard = self._changes.heard()
            now = self._services.clock()
            if self._services.database.read(deployment_sql.get).revision != revision:
                mirror = self._services.database.snapshot(_mirror)
                revision, sent_at = mirror.revision, now
                yield mirror
            elif not 0 <= now - sent_at < heartbeat_ms:
                sent_at = now
                yield keys_pb2.KeyMirror(revision=revision, unchanged=True)
            self._changes.wait(heard, self._poll_seconds)

    def RecordUsage(
        self, request: keys_pb2.RecordUsageRequest, context: grpc.ServicerContext
    ) -> keys_pb2.RecordUsageResponse:
        """Keeps a batch of usage records."""
        batch_id = request.batch_id or new_id("use")
        self._services.database.write(lambda tx: usage_sql.keep(tx, batch_id, request.records), lock_key="usage")
        return keys_pb2.RecordUsageResponse()

    def ListUsage(
        self, request: keys_pb2.ListUsageRequest, context: grpc.ServicerContext
    ) -> keys_pb2.ListUsageResponse:
        """Usage records, newest first."""
        key_id = request.key_id if request.HasField("key_id") else None
        limit = given_or_default(request, "limit")
        rows = self._services.database.read(
            lambda tx: usage_sql.newest(tx, key_id=key_id, since=request.since_ms, limit=limit)
        )
        return keys_pb2.ListUsageResponse(
            items=[
                keys_pb2.UsageRecord(
                    at_ms=row.at,
                    key_id=row.key_id,
                    method=row.method,
                    route=row.route,
                    status=row.status,
                    address=row.address,
                    reason=row.reason,
                    request_id=row.request_id,
                )
                for row in rows
            ]
        )

    def ListUsageHours(
        self, request: keys_pb2.ListUsageHoursRequest, context: grpc.ServicerContext
    ) -> keys_pb2.ListUsageHoursResponse:
        """Usage records counted by the hour, the newest hour first."""
        key_id = request.key_id if request.HasField("key_id") else None
        limit = given_or_default(request, "limit")
        rows = self._services.database.read(
            lambda tx: usage_sql.hours(tx, key_id=key_id, since=request.since_ms, limit=limit)
        )
        return keys_pb2.ListUsageHoursResponse(
            items=[
                keys_pb2.UsageHour(
                    hour_ms=row.hour,
                    key_id=row.key_id,
                    method=row.method,
                    route=row.route,
                    status=row.status,
                    calls=row.calls,
                )
                for row in rows
            ]
        )

    def _today(self) -> int:
        return utc_day(self._services.clock())

    def _record(self, issued: Issued) -> keys_pb2.KeyRecord:
        return key_record(issued.row, self._services.clock())

    def _credentials(self, issued: Issued) -> keys_pb2.KeyCredentials:
        return keys_pb2.KeyCredentials(
            record=self._record(issued), key_value=issued.key_value, external_id=issued.external_id
        )


def _mirror(tx: Tx) -> keys_pb2.KeyMirror:
    deployment = deployment_sql.get(tx)
    return keys_pb2.KeyMirror(
        deployment_id=deployment.deployment_id,
        governed=bool(deployment.governed),
        api_enabled=bool(deployment.api_enabled),
        any_key_ever=bool(deployment.any_key_ever),
        revision=deployment.revision,
        keys=[mirrored_key(row) for row in sql.mirror(tx)],
    )
