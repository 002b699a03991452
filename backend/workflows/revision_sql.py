"""SQL of the revision of workflows and resources, by which cached terms are invalidated."""

import secrets

from sqlalchemy import bindparam, insert, select, update

from backend.storage.database import Tx
from backend.storage.statements import Command, ScalarQuery
from backend.storage.tables.workflows import resource_revision

_REVISION = ScalarQuery[int](select(resource_revision.c.revision))
_FIRST_REVISION = Command(insert(resource_revision), ["only", "revision"])
_NEXT_REVISION = Command(
    update(resource_revision).values(revision=resource_revision.c.revision + bindparam("step", required=True))
)


def revision(tx: Tx) -> int:
    """Returns a number that every change of a workflow or a resource changes."""
    return tx.scalar(_REVISION) or 0


def touch(tx: Tx) -> None:
    """Raises the revision by a random number, so that one that was rolled back is not used again for other content."""
    step = 1 + secrets.randbits(20)
    if not tx.run(_NEXT_REVISION, step=step):
        tx.enqueue(_FIRST_REVISION, only=1, revision=step)
