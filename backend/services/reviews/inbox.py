"""Inboxes of people: assigns approvals that wait, and snoozes them for one person."""

from collections.abc import Callable
from typing import Final

from backend.common.clock import to_text
from backend.common.errors import invalid
from backend.common.json_text import JsonObject
from backend.common.principal import Principal
from backend.common.states import ApprovalState
from backend.services.audit import sql as audit
from backend.services.dependencies import Services
from backend.services.runs import approvals_sql
from backend.services.runs.approvals import approval_not_found
from backend.storage.database import Tx, run_of
from contract.times import milliseconds_of
from workflow_api.v1 import reviews_pb2

LONGEST_SNOOZE_MS: Final = 30 * 86_400_000
"""Longest time for which an approval can be snoozed."""


Change = Callable[[Tx, approvals_sql.FoundApprovalRow], JsonObject]
"""Changes an approval that waits; returns details for the audit trail."""


class Inbox:
    """Changes what waits in the inboxes of people who decide approvals; decides none."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def assign(self, request: reviews_pb2.AssignApprovalRequest, caller: Principal) -> None:
        """Assigns an approval to the caller, or to nobody.

        Raises:
            ApiError: `not_found`; `invalid_request` for an approval that does not wait, or a caller who is no person.
        """
        assignee = None if request.unassign else _person_of(caller)
        action = "approval.unassigned" if request.unassign else "approval.assigned"

        def work(tx: Tx, _: approvals_sql.FoundApprovalRow) -> JsonObject:
            approvals_sql.assign(tx, request.approval_id, assignee)
            return {}

        self._change(request.approval_id, caller, action, work)

    def snooze(self, request: reviews_pb2.SnoozeApprovalRequest, caller: Principal) -> None:
        """Snoozes an approval for the caller until a time, or wakes it.

        Raises:
            ApiError: as `assign`, or `invalid_request` for a time that is past, too far, or not before the deadline.
        """
        person, at = _person_of(caller), self._services.clock()
        until = milliseconds_of(request.until) if request.HasField("until") else None
        if until is not None and not at < until <= at + LONGEST_SNOOZE_MS:
            raise invalid("until", "must be a time within the next 30 days")

        def work(tx: Tx, found: approvals_sql.FoundApprovalRow) -> JsonObject:
            if until is not None and found.deadline_at is not None and until >= found.deadline_at:
                raise invalid("until", f"must be before the deadline, which is {to_text(found.deadline_at)}")
            approvals_sql.snooze(tx, request.approval_id, person, until)
            return {} if until is None else {"until": to_text(until)}

        action = "approval.woken" if until is None else "approval.snoozed"
        self._change(request.approval_id, caller, action, work)

    def _change(self, approval_id: str, caller: Principal, action: str, work: Change) -> None:
        database, at = self._services.database, self._services.clock()
        found = database.read(lambda tx: approvals_sql.find(tx, approval_id))
        if found is None:
            raise approval_not_found(approval_id)

        def change(tx: Tx) -> None:
            row = approvals_sql.find(tx, approval_id)
            if row is None:
                raise approval_not_found(approval_id)
            if row.state != ApprovalState.PENDING:
                raise invalid("approval_id", f"must wait for a decision; this one is {row.state}")
            details = {"run_id": row.run_id, **work(tx, row)}
            audit.record(tx, at=at, actor=caller.audit_name, action=action, target=approval_id, details=details)

        database.write(change, lock_key=run_of(found.run_id))


def _person_of(caller: Principal) -> str:
    """Returns the person who calls; raises `invalid_request` for a caller who has not signed in."""
    if not caller.person:
        raise invalid("approval_id", "must be sent by a person who has signed in: a tool has no inbox")
    return caller.person
