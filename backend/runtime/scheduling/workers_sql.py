"""SQL of the leases that processes hold while they execute runs."""

from typing import Final, NamedTuple

from sqlalchemy import bindparam, delete, func, insert, literal_column, select, update

from backend.segment_state import SegmentState
from backend.storage.database import Tx
from backend.storage.statements import Command, Query, ScalarQuery, select_row
from backend.storage.tables.segments import segments
from backend.storage.tables.workers import workers

LEASE_SECONDS: Final = 20.0


class LeaseRow(NamedTuple):
    """The lease of a process, and the host that it runs on."""

    owner: str
    host: str
    lease_until: int


_OWNER: Final = workers.c.owner == bindparam("of_owner")
_ADD = Command(insert(workers), [column.name for column in workers.columns])
_RENEW = Command(
    update(workers).where(_OWNER).values(lease_until=bindparam("until"), draining=bindparam("new_draining"))
)
_REMOVE = Command(delete(workers).where(_OWNER))
_SLOTS = ScalarQuery[int](
    select(func.coalesce(func.sum(workers.c.step_slots), literal_column("0"))).where(
        workers.c.lease_until > bindparam("now"), workers.c.draining == literal_column("0")
    ),
)
_LEASES = Query(LeaseRow, select_row(LeaseRow, workers).where(workers.c.lease_until > bindparam("now")))
_LIVE = ScalarQuery[str](select(workers.c.owner).where(workers.c.lease_until > bindparam("now")))
# A dead process stays until its segments are closed.
_FORGET = Command(
    delete(workers).where(
        workers.c.lease_until < bindparam("before"),
        ~select(segments.c.segment_id)
        .where(
            segments.c.owner == workers.c.owner,
            # The condition of the partial index.
            segments.c.state != literal_column(f"'{SegmentState.ENDED}'"),
            segments.c.state == literal_column(f"'{SegmentState.RUNNING}'"),
        )
        .exists(),
    )
)


def add(tx: Tx, *, owner: str, host: str, step_slots: int, now: int, until: int) -> None:
    """Writes a new process with its first lease."""
    tx.enqueue(_ADD, owner=owner, host=host, step_slots=step_slots, started_at=now, lease_until=until, draining=0)


def renew(tx: Tx, owner: str, until: int, *, draining: bool) -> bool:
    """Renews a lease; False if it is gone."""
    return tx.run(_RENEW, of_owner=owner, until=until, new_draining=int(draining)) == 1


def remove(tx: Tx, owner: str) -> None:
    """Removes a lease."""
    tx.enqueue(_REMOVE, of_owner=owner)


def live(tx: Tx, now: int) -> set[str]:
    """Returns the processes that hold a lease."""
    return set(tx.scalars(_LIVE, now=now))


def leases(tx: Tx, now: int) -> list[LeaseRow]:
    """Returns every lease that has not ended."""
    return tx.all(_LEASES, now=now)


def step_slots(tx: Tx, now: int) -> int:
    """Returns how many steps can run at once on all processes that take new segments."""
    return int(tx.scalar_one(_SLOTS, now=now))


def forget(tx: Tx, before: int) -> int:
    """Removes leases that ended before that time."""
    return tx.run(_FORGET, before=before)
