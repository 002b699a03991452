"""Administration of keys: each change is one audited transaction, and every edge is notified."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from backend.common.clock import utc_day
from backend.common.errors import ApiError, id_not_found_message, invalid
from backend.common.waits import KeyChanges
from backend.services.audit import sql as audit
from backend.services.dependencies import Services
from backend.services.deployment import sql as deployment_sql
from backend.services.keys import rules, sql
from backend.services.keys.messages import MODE_NAMES
from backend.services.keys.rules import new_external_id, new_key_id, new_secret, sha256_hex
from backend.storage.database import Tx
from contract.fields import PRIORITY_SPELLINGS, given_or_default, given_or_default_duration
from contract.times import milliseconds_of
from workflow_api.v1 import errors_pb2, keys_pb2

_MOST_SUGGESTED: Final = 1_000
_MODEL_LIMITS: Final = ("daily_tokens", "daily_cost_microusd")
_ALL_ACTIVE: Final = keys_pb2.WorkflowAccess(mode=keys_pb2.WorkflowAccess.MODE_ALL_ACTIVE)


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """Row of a key after a change, and the issued credentials, which are not stored."""

    row: sql.KeyRow
    key_value: str | None = None
    external_id: str | None = None


class KeyAdministration:
    """Creates, updates, rotates, revokes and deletes keys (contract 9.6)."""

    def __init__(self, services: Services, changes: KeyChanges) -> None:
        self._services = services
        self._changes = changes

    def create(self, request: keys_pb2.CreateKeyRequest, actor: str) -> IssuedKey:
        """Creates a key."""
        access = request.workflow_access if request.HasField("workflow_access") else _ALL_ACTIVE
        lifetime = given_or_default_duration(request, "lifetime")
        problems = [
            *rules.scope_problems(request.scopes),
            *rules.access_problems(access),
            *rules.allow_list_problems(request.source_allow_list),
            *rules.release_problems(self._services.release),
        ]
        if request.HasField("allowed_hours"):
            problems += rules.hours_problems(request.allowed_hours)
        rules.refuse(problems)

        key_id, secret, external_id = new_key_id(), new_secret(), new_external_id()
        now = self._services.clock()
        columns: dict[str, object] = {
            "key_id": key_id,
            "deployment_id": request.deployment_id or self._services.deployment_id,
            "name": request.name,
            "description": request.description,
            "secret_sha256": sha256_hex(secret),
            "previous_secret_sha256": None,
            "previous_secret_expires_at": None,
            "external_id_sha256": sha256_hex(external_id),
            "scopes": json.dumps(rules.granted_scopes(request.scopes)),
            "source_allow_list": json.dumps(list(request.source_allow_list)),
            "start_hour": request.allowed_hours.start_hour if request.HasField("allowed_hours") else None,
            "end_hour": request.allowed_hours.end_hour if request.HasField("allowed_hours") else None,
            "created_at": now,
            "expires_at": now + milliseconds_of(lifetime),
            "rate_limit_rpm": given_or_default(request, "rate_limit_rpm"),
            "daily_run_quota": given_or_default(request, "daily_run_quota"),
            "max_concurrent_runs": given_or_default(request, "max_concurrent_runs"),
            "revoked_at": None,
            "daily_tokens": request.daily_tokens if request.HasField("daily_tokens") else None,
            "daily_cost_microusd": request.daily_cost_microusd if request.HasField("daily_cost_microusd") else None,
            "priority": PRIORITY_SPELLINGS[request.priority or keys_pb2.KEY_PRIORITY_NORMAL],
            **_access_columns(access),
        }

        def work(tx: Tx) -> sql.KeyRow:
            _refuse_unknown_workflows(tx, access)
            sql.add(tx, columns)
            deployment_sql.record_first_key(tx)
            self._audit(tx, actor, "key.created", key_id, {"name": request.name})
            return self._require_key(tx, key_id)

        return IssuedKey(self._services.database.write(work), f"{key_id}.{secret}", external_id)

    def update(self, request: keys_pb2.UpdateKeyRequest, actor: str) -> IssuedKey:
        """Changes the fields that the request names (contract 9.7)."""
        rules.refuse(_update_problems(request))

        def change(tx: Tx, row: sql.KeyRow) -> dict[str, object]:
            if request.HasField("workflow_access"):
                _refuse_unknown_workflows(tx, request.workflow_access)
            return _updated_columns(request, row)

        return IssuedKey(self._change(request.key_id, actor, "key.edited", change, show_changes=True))

    def rotate(self, request: keys_pb2.RotateKeyRequest, actor: str) -> IssuedKey:
        """Issues a new secret; the present secret stays valid for the overlap, an older overlap ends."""
        overlap = given_or_default_duration(request, "overlap")
        secret = new_secret()

        def change(_tx: Tx, row: sql.KeyRow) -> dict[str, object]:
            return {
                "secret_sha256": sha256_hex(secret),
                "previous_secret_sha256": row.secret_sha256,
                "previous_secret_expires_at": self._services.clock() + milliseconds_of(overlap),
            }

        row = self._change(request.key_id, actor, "key.rotated", change)
        return IssuedKey(row, key_value=f"{request.key_id}.{secret}")

    def end_overlap(self, key_id: str, actor: str) -> IssuedKey:
        """Ends the overlap, in which the secret before the last rotation is valid too."""

        def change(_tx: Tx, row: sql.KeyRow) -> dict[str, object]:
            if row.previous_secret_expires_at is None or row.previous_secret_expires_at <= self._services.clock():
                raise invalid("key_id", "must name a key that has two secrets")
            return {"previous_secret_sha256": None, "previous_secret_expires_at": None}

        return IssuedKey(self._change(key_id, actor, "key.overlap_ended", change))

    def issue_external_id(self, key_id: str, actor: str) -> IssuedKey:
        """Issues a new external id; the old one has no overlap."""
        external_id = new_external_id()
        row = self._change(
            key_id, actor, "key.external_id_issued", lambda _tx, _row: {"external_id_sha256": sha256_hex(external_id)}
        )
        return IssuedKey(row, external_id=external_id)

    def revoke(self, key_id: str, actor: str) -> IssuedKey:
        """Ends a key for good; revoking it again changes nothing."""

        def work(tx: Tx) -> sql.KeyRow:
            row = self._require_key(tx, key_id)
            if row.revoked_at is None:
                sql.edit(tx, row, {"revoked_at": self._services.clock()})
                self._audit(tx, actor, "key.revoked", key_id, {"name": row.name})
            return self._require_key(tx, key_id)

        return IssuedKey(self._services.database.write(work))

    def delete(self, key_id: str, actor: str) -> None:
        """Removes a revoked key."""

        def work(tx: Tx) -> None:
            row = self._require_key(tx, key_id)
            if row.revoked_at is None:
                raise invalid("key_id", "must name a revoked key: revoke it first")
            sql.remove(tx, key_id)
            self._audit(tx, actor, "key.deleted", key_id, {"name": row.name})

        self._services.database.write(work)

    def _change(
        self,
        key_id: str,
        actor: str,
        action: str,
        change: Callable[[Tx, sql.KeyRow], dict[str, object]],
        *,
        show_changes: bool = False,
    ) -> sql.KeyRow:
        def work(tx: Tx) -> sql.KeyRow:
            row = self._require_key(tx, key_id)
            if row.revoked_at is not None:
                raise invalid("key_id", "must name a key that is not revoked")
            changes = change(tx, row)
            sql.edit(tx, row, changes)
            before = {name: getattr(row, name) for name in changes} if show_changes else {}
            shown = {**changes, "before": before} if show_changes else {}
            self._audit(tx, actor, action, key_id, {"name": row.name, **shown})
            return self._require_key(tx, key_id)

        return self._services.database.write(work)

    def _require_key(self, tx: Tx, key_id: str) -> sql.KeyRow:
        row = sql.get(tx, key_id, utc_day(self._services.clock()))
        if row is None:
            raise key_not_found(tx, key_id)
        return row

    def _audit(self, tx: Tx, actor: str, action: str, key_id: str, details: dict[str, object]) -> None:
        deployment_sql.raise_revision(tx)
        audit.record(tx, at=self._services.clock(), actor=actor, action=action, target=key_id, details=details)
        tx.after_commit(self._changes.notify)


def _update_problems(request: keys_pb2.UpdateKeyRequest) -> list[rules.Problem]:
    problems: list[rules.Problem] = []
    if request.HasField("scopes"):
        problems += rules.scope_problems(request.scopes.scopes)
    if request.HasField("workflow_access"):
        problems += rules.access_problems(request.workflow_access)
    if request.HasField("source_allow_list"):
        problems += rules.allow_list_problems(request.source_allow_list.ranges)
    if request.HasField("allowed_hours"):
        problems += rules.hours_problems(request.allowed_hours)
        if request.clear_allowed_hours:
            problems.append(("clear_allowed_hours", "must not be set together with allowed_hours"))
    problems += [
        (f"clear_{name}", f"must not be set together with {name}")
        for name in _MODEL_LIMITS
        if getattr(request, f"clear_{name}") and request.HasField(name)
    ]
    return problems


def _updated_columns(request: keys_pb2.UpdateKeyRequest, row: sql.KeyRow) -> dict[str, object]:
    columns: dict[str, object] = {
        field.name: value
        for field, value in request.ListFields()
        if field.name
        in {"name", "description", "rate_limit_rpm", "daily_run_quota", "max_concurrent_runs", *_MODEL_LIMITS}
    }
    if request.HasField("scopes"):
        columns["scopes"] = json.dumps(rules.granted_scopes(request.scopes.scopes))
    if request.HasField("workflow_access"):
        columns |= _access_columns(request.workflow_access)
    if request.HasField("source_allow_list"):
        columns["source_allow_list"] = json.dumps(list(request.source_allow_list.ranges))
    if request.HasField("allowed_hours"):
        columns |= {"start_hour": request.allowed_hours.start_hour, "end_hour": request.allowed_hours.end_hour}
    if request.clear_allowed_hours:
        columns |= {"start_hour": None, "end_hour": None}
    columns |= {name: None for name in _MODEL_LIMITS if getattr(request, f"clear_{name}")}
    if request.priority:
        columns["priority"] = PRIORITY_SPELLINGS[request.priority]
    if request.HasField("lifetime"):
        columns["expires_at"] = row.created_at + milliseconds_of(request.lifetime)
    return columns


def _access_columns(access: keys_pb2.WorkflowAccess) -> dict[str, object]:
    return {"access_mode": MODE_NAMES[access.mode], "access_workflow_ids": json.dumps(list(access.workflow_ids))}


def _refuse_unknown_workflows(tx: Tx, access: keys_pb2.WorkflowAccess) -> None:
    unknown = [each for each in access.workflow_ids if not sql.workflow_exists(tx, each)]
    rules.refuse(("workflow_access.workflow_ids", f"must name existing workflows; {each} is none") for each in unknown)


def key_not_found(tx: Tx, key_id: str) -> ApiError:
    """Returns the refusal of an unknown key id, which suggests keys with that name."""
    message = id_not_found_message("key", key_id, sql.names(tx, _MOST_SUGGESTED))
    return ApiError(errors_pb2.ERROR_REASON_NOT_FOUND, message)
