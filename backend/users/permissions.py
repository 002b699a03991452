"""What a person is to be allowed: a role, and of an approver the workflows."""

import json
from typing import NamedTuple

from backend.errors import invalid
from backend.storage.database import Tx
from backend.users import scope_sql
from contract.roles import ROLE_NAMES
from workflow_api.v1 import users_pb2


class Permissions(NamedTuple):
    """A role, and the workflows that an approver decides for; None for all."""

    role: users_pb2.Role.ValueType
    workflow_ids: tuple[str, ...] | None

    def check(self) -> None:
        """Raises ApiError `invalid_request` for what cannot be."""
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
            if not scope_sql.is_workflow(tx, workflow_id):
                raise invalid("decides_for.workflow_ids", f"must name existing workflows; {workflow_id} is none")

    def columns(self) -> dict[str, object]:
        """Returns what is stored of it."""
        chosen = None if self.workflow_ids is None else json.dumps(sorted(self.workflow_ids))
        return {"role": ROLE_NAMES[self.role], "workflow_ids": chosen}

    def details(self) -> dict[str, object]:
        """Returns what is audited of it."""
        chosen = {} if self.workflow_ids is None else {"workflow_ids": sorted(self.workflow_ids)}
        return {"role": ROLE_NAMES[self.role], **chosen}


def permissions_of(request: users_pb2.CreateUserRequest | users_pb2.SetUserRoleRequest) -> Permissions:
    """Returns what a request asks for."""
    chosen = tuple(request.decides_for.workflow_ids) if request.HasField("decides_for") else None
    return Permissions(request.role, chosen)
