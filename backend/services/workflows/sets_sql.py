"""SQL of sets: the definitions that each set owns, and changes of the owner."""

from typing import Final, NamedTuple

from sqlalchemy import Text, bindparam, literal_column, select, update

from backend.services.workflows.sql import DELETED, touch
from backend.storage.database import Tx
from backend.storage.statements import Command, Query
from backend.storage.tables.workflows import resources, workflows


class OwnedRow(NamedTuple):
    """A workflow or a resource, by its kind in the table, with the set that owns it."""

    definition_id: str
    kind: str
    name: str
    version: int
    owner_set: str


WORKFLOW: Final = "workflow"
_OWNED_WORKFLOWS = Query(
    OwnedRow,
    select(
        workflows.c.workflow_id.label("definition_id"),
        literal_column(f"'{WORKFLOW}'").label("kind"),
        workflows.c.name,
        workflows.c.newest_version.label("version"),
        workflows.c.owner_set,
    ).where(workflows.c.owner_set.is_not(None), workflows.c.deleted_at.is_(None)),
)
# In a rolling upgrade, a backend of the previous release leaves the owner of definitions that it deletes.
_OWNED_RESOURCES = Query(
    OwnedRow,
    select(
        resources.c.resource_id.label("definition_id"),
        resources.c.kind,
        resources.c.name,
        resources.c.version,
        resources.c.owner_set,
    ).where(resources.c.owner_set.is_not(None), ~resources.c.kind.like(literal_column(f"'{DELETED}%'"))),
)
_NEW_OWNER: Final = bindparam("new_owner", type_=Text)
_OWN_WORKFLOW = Command(
    update(workflows).where(workflows.c.workflow_id == bindparam("of")).values(owner_set=_NEW_OWNER)
)
_OWN_RESOURCE = Command(
    update(resources).where(resources.c.resource_id == bindparam("of")).values(owner_set=_NEW_OWNER)
)


def owned(tx: Tx) -> list[OwnedRow]:
    """Returns every definition that a set owns; there are at most 256 of each kind."""
    return [*tx.all(_OWNED_WORKFLOWS), *tx.all(_OWNED_RESOURCES)]


def change_owner(tx: Tx, kind: str, definition_id: str, owner_set: str | None) -> None:
    """Writes the set that owns a definition of a kind in the tables; None for no set."""
    tx.enqueue(_OWN_WORKFLOW if kind == WORKFLOW else _OWN_RESOURCE, of=definition_id, new_owner=owner_set)
    touch(tx)
