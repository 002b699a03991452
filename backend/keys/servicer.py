"""KeysService over gRPC."""

import grpc

from backend.clock import MAX_MS, utc_day
from backend.key_changes import KeyChanges
from backend.keys import sql
from backend.keys.messages import found_key, key_record
from backend.keys.service import IssuedKey, KeyAdministration, no_such_key
from backend.paging import Paging
from backend.rpc.interceptors import caller_of
from backend.services import Services
from backend.storage.database import Tx
from contract.defaults import given_or_default
from workflow_api.v1 import keys_pb2, keys_pb2_grpc


class KeysServicer(keys_pb2_grpc.KeysServiceServicer):
    """Administers keys."""

    def __init__(self, services: Services, changes: KeyChanges) -> None:
        self._services = services
        self._administration = KeyAdministration(services, changes)

    def CreateKey(self, request: keys_pb2.CreateKeyRequest, context: grpc.ServicerContext) -> keys_pb2.KeyCredentials:
        """Creates a key and shows its credentials once."""
        return self._credentials(self._administration.create(request, caller_of(context).audit_name))

    def GetKey(self, request: keys_pb2.GetKeyRequest, context: grpc.ServicerContext) -> keys_pb2.KeyRecord:
        """Returns one key as the administrator sees it."""

        def work(tx: Tx) -> sql.KeyRow:
            row = sql.get(tx, request.key_id, self._today())
            if row is None:
                raise no_such_key(tx, request.key_id)
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
        rows = self._services.database.read(lambda tx: sql.found(tx, request.text, most))
        now = self._services.clock()
        return keys_pb2.FindKeysResponse(items=[found_key(row, now) for row in rows])

    def UpdateKey(self, request: keys_pb2.UpdateKeyRequest, context: grpc.ServicerContext) -> keys_pb2.KeyRecord:
        """Changes every field that is set."""
        return self._record(self._administration.update(request, caller_of(context).audit_name))

    def RotateKey(self, request: keys_pb2.RotateKeyRequest, context: grpc.ServicerContext) -> keys_pb2.KeyCredentials:
        """Issues a new secret and shows it once."""
        return self._credentials(self._administration.rotate(request, caller_of(context).audit_name))

    def EndKeyOverlap(
        self, request: keys_pb2.EndKeyOverlapRequest, context: grpc.ServicerContext
    ) -> keys_pb2.KeyRecord:
        """Ends the time in which a key has two secrets."""
        return self._record(self._administration.end_overlap(request.key_id, caller_of(context).audit_name))

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

    def _today(self) -> int:
        return utc_day(self._services.clock())

    def _record(self, issued: IssuedKey) -> keys_pb2.KeyRecord:
        return key_record(issued.row, self._services.clock())

    def _credentials(self, issued: IssuedKey) -> keys_pb2.KeyCredentials:
        return keys_pb2.KeyCredentials(
            record=self._record(issued), key_value=issued.key_value, external_id=issued.external_id
        )
