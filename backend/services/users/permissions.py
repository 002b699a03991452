"""Permissions of users: the RPCs that a role may call, and the workflows for which it may call them."""

import json
from typing import Any, NamedTuple

from google.protobuf.message import Message

from backend.common.errors import ApiError, invalid
from backend.services.users import sql
from backend.services.users.messages import chosen_workflows, role_of
from backend.storage.database import Database, Tx
from backend.storage.tables.users import UserRow
from contract.roles import ROLE_NAMES, RULES, SIGNING_IN, WorkflowLimit
from workflow_api.v1 import errors_pb2, users_pb2


class RoleGuard:
    """`Guard` that permits calls by the table of roles. Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def __call__(self, person: str, rpc: str, request: Message) -> frozenset[str] | None:
        """Returns the workflows that a person's call is limited to, or None for all.

        Raises:
            ApiError: `forbidden` if the role does not allow the call; not found if the object is of another workflow.
        """
        if rpc in SIGNING_IN:
            return None
        return self._database.read(lambda tx: _check_call(tx, person, rpc, request))


def _check_call(tx: Tx, person: str, rpc: str, request: Message) -> frozenset[str] | None:
    row = sql.get(tx, person) if person else None
    if row is None or row.disabled_at is not None:
        raise ApiError(errors_pb2.ERROR_REASON_FORBIDDEN, "Nobody has signed in by this name.")
    rule = RULES.get(rpc)
    chosen = _workflow_limit(row)
    if (
        rule is None
        or role_of(row) not in rule.roles
        or (chosen is not None and rule.workflow_limit is WorkflowLimit.REFUSED)
    ):
        raise ApiError(
            errors_pb2.ERROR_REASON_FORBIDDEN,
            "Your role does not allow this. An administrator can do it, or give you another role.",
        )
    if chosen is not None:
        _refuse_other_workflows(tx, rule.workflow_limit, request, chosen)
    return chosen


def _workflow_limit(row: UserRow) -> frozenset[str] | None:
    chosen = chosen_workflows(row)
    return None if chosen is None else frozenset(chosen)


def _refuse_other_workflows(tx: Tx, limit: WorkflowLimit, request: Any, chosen: frozenset[str]) -> None:
    """Raises a servicer's not-found error unless the requested object is of a chosen workflow."""
    if limit is WorkflowLimit.RUN:
        run_id: str = request.run_id
        if sql.workflow_of_run(tx, run_id) not in chosen:
            raise ApiError(errors_pb2.ERROR_REASON_RUN_NOT_FOUND, f"There is no run {run_id}.")
    elif limit is WorkflowLimit.APPROVAL:
        approval_id: str = request.approval_id
        if sql.workflow_of_approval(tx, approval_id) not in chosen:
            raise ApiError(errors_pb2.ERROR_REASON_NOT_FOUND, f"There is no approval {approval_id}.")
    elif limit is WorkflowLimit.WORKFLOW:
        name = "workflow_id" if "workflow_id" in request.DESCRIPTOR.fields_by_name else "workflow"
        if getattr(request, name) not in chosen:
            raise ApiError(errors_pb2.ERROR_REASON_WORKFLOW_NOT_FOUND)


class Permissions(NamedTuple):
    """A role, and the workflows that an approver decides for; None for all."""

    role: users_pb2.Role.ValueType
    workflow_ids: tuple[str, ...] | None

    def check(self) -> None:
        """Raises ApiError `invalid_request` if role and workflows do not fit."""
        if self.role not in ROLE_NAMES:
            *others, last = ROLE_NAMES.values()
            raise invalid("role", f"must be {', '.join(others)} or {last}")
        if self.workflow_ids is None:
            return
        if self.role != users_pb2.ROLE_APPROVER:
            raise invalid("decides_for", "must be absent for any role but approver")
        if not self.workflow_ids:
            raise invalid("decides_for.workflow_ids", "must name 1 to 50 workflows")
        if len(set(self.workflow_ids)) != len(self.workflow_ids):
            raise invalid("decides_for.workflow_ids", "must name each workflow once")

    def refuse_unknown(self, tx: Tx) -> None:
        """Raises ApiError `invalid_request` for a workflow that does not exist."""
        for workflow_id in self.workflow_ids or ():
            if not sql.workflow_exists(tx, workflow_id):
                raise invalid("decides_for.workflow_ids", f"must name existing workflows; {workflow_id} is none")

    def columns(self) -> dict[str, object]:
        """Returns the columns of a user's role and workflows."""
        chosen = None if self.workflow_ids is None else json.dumps(sorted(self.workflow_ids))
        return {"role": ROLE_NAMES[self.role], "workflow_ids": chosen}

    def details(self) -> dict[str, object]:
        """Returns the details of a user's role and workflows for the audit trail."""
        chosen = {} if self.workflow_ids is None else {"workflow_ids": sorted(self.workflow_ids)}
        return {"role": ROLE_NAMES[self.role], **chosen}


def permissions_of(request: users_pb2.CreateUserRequest | users_pb2.SetUserRoleRequest) -> Permissions:
    """Returns the permissions that a request asks for."""
    chosen = tuple(request.decides_for.workflow_ids) if request.HasField("decides_for") else None
    return Permissions(request.role, chosen)
