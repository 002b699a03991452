"""Judges the calls of people by their role as it is stored now, so that a changed role holds for the next call."""

from typing import Any

from google.protobuf.message import Message

from backend.errors import ApiError
from backend.storage.database import Database, Tx
from backend.storage.tables.users import UserRow
from backend.users import scope_sql, sql
from backend.users.messages import chosen_workflows, role_of
from contract.roles import RULES, SIGNING_IN, Within
from workflow_api.v1 import errors_pb2


class RoleGuard:
    """A `Guard` by the table of roles. Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def __call__(self, person: str, rpc: str, request: Message) -> frozenset[str] | None:
        """Returns the workflows that a person's call is limited to, or None for all.

        Raises:
            ApiError: `forbidden` where the role does not allow it; where what is asked for is of another workflow, as
                if it did not exist.
        """
        if rpc in SIGNING_IN:
            return None
        return self._database.read(lambda tx: _judge(tx, person, rpc, request))


def _judge(tx: Tx, person: str, rpc: str, request: Message) -> frozenset[str] | None:
    row = sql.get(tx, person) if person else None
    if row is None or row.disabled_at is not None:
        raise ApiError(errors_pb2.ERROR_REASON_FORBIDDEN, "Nobody has signed in by this name.")
    rule = RULES.get(rpc)
    chosen = _limits(row)
    if rule is None or role_of(row) not in rule.roles or (chosen is not None and rule.within is Within.REFUSED):
        raise ApiError(
            errors_pb2.ERROR_REASON_FORBIDDEN,
            "Your role does not allow this. An administrator can do it, or give you another role.",
        )
    if chosen is not None:
        _refuse_others(tx, rule.within, request, chosen)
    return chosen


def _limits(row: UserRow) -> frozenset[str] | None:
    chosen = chosen_workflows(row)
    return None if chosen is None else frozenset(chosen)


def _refuse_others(tx: Tx, within: Within, request: Any, chosen: frozenset[str]) -> None:
    """Raises what a servicer raises for something that does not exist, unless it is of a chosen workflow."""
    if within is Within.RUN:
        run_id: str = request.run_id
        if scope_sql.workflow_of_run(tx, run_id) not in chosen:
            raise ApiError(errors_pb2.ERROR_REASON_RUN_NOT_FOUND, f"There is no run {run_id}.")
    elif within is Within.APPROVAL:
        approval_id: str = request.approval_id
        if scope_sql.workflow_of_approval(tx, approval_id) not in chosen:
            raise ApiError(errors_pb2.ERROR_REASON_NOT_FOUND, f"There is no approval {approval_id}.")
    elif within is Within.WORKFLOW:
        name = "workflow_id" if "workflow_id" in request.DESCRIPTOR.fields_by_name else "workflow"
        if getattr(request, name) not in chosen:
            raise ApiError(errors_pb2.ERROR_REASON_WORKFLOW_NOT_FOUND)
