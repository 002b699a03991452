"""Approvers of an approval, as roles and names of people, and the check whether a caller is among them."""

from typing import NamedTuple

from backend.common import json_text
from backend.common.json_text import JsonMapping
from backend.common.principal import Principal
from backend.services.users import sql as users_sql
from backend.storage.database import Tx


class Approvers(NamedTuple):
    """Roles and people (by sign-in name) who may decide an approval, and nobody else."""

    roles: tuple[str, ...]
    people: tuple[str, ...]

    def __str__(self) -> str:
        """Returns roles and people as text for a message."""
        return ", ".join([*(f"role {role}" for role in self.roles), *self.people])


class Decider(NamedTuple):
    """A caller who decides approvals; `person` is None for an operator's tool, which may decide every approval."""

    person: str | None
    role: str | None

    def is_among(self, approvers: Approvers) -> bool:
        """Returns whether the caller has signed in, and is one of the approvers."""
        return self.person is not None and (self.person in approvers.people or self.role in approvers.roles)

    def may_decide(self, approvers: Approvers | None) -> bool:
        """Returns whether the caller may decide an approval; `approvers` None allows everybody."""
        return approvers is None or self.person is None or self.is_among(approvers)


def decider_of(tx: Tx, caller: Principal) -> Decider:
    """Returns the caller with the role of the person who has signed in."""
    if caller.person is None:
        return Decider(None, None)
    row = users_sql.get(tx, caller.person)
    return Decider(caller.person, row.role if row else None)


def read_approvers(text: str | None) -> Approvers | None:
    """Returns approvers from the JSON of a row; None where no approvers are named."""
    if text is None:
        return None
    value: JsonMapping = json_text.parse(text)
    return Approvers(tuple(value["roles"]), tuple(value["people"]))
