"""SQL of the leases that processes hold while they execute runs."""

from typing import Final, NamedTuple

from sqlalchemy import bindparam, delete, func, insert, literal_column, select, update

from backend.storage.database import Tx
from backend.storage.statements import Command, Query, ScalarQuery, select_row
from backend.storage.tables.workers import workers

LEASE_MS: Final = 20_000


class LeaseRow(NamedTuple):
    """The lease of a process, the host that it runs on, and the segments that it could take when it last renewed."""

    owner: str
    host: str
    lease_until: int
    draining: int
    room: int

    def lapsed(self, now: int) -> bool:
        """Returns whether it was not renewed in time, or ends later than any does, by a clock that was ahead."""
        return not now < self.lease_until <= now + LEASE_MS


_OWNER: Final = workers.c.owner == bindparam("of_owner")
_ADD = Command(insert(workers), [column.name for column in workers.columns])
_RENEW = Command(
    update(workers)
    .where(_OWNER)
    .values(lease_until=bindparam("until"), draining=bindparam("new_draining"), room=bindparam("new_room"))
)
_REMOVE = Command(delete(workers).where(_OWNER))
_REMOVE_LAPSED = Command(delete(workers).where(_OWNER, workers.c.lease_until == bindparam("not_renewed")))
_SLOTS = ScalarQuery[int](
    select(func.coalesce(func.sum(workers.c.step_slots), literal_column("0"))).where(
        workers.c.lease_until > bindparam("now"), workers.c.draining == literal_column("0")
    ),
)
_LEASES = Query(LeaseRow, select_row(LeaseRow, workers))


def lock_key(owner: str) -> str:
    """Returns the lock key of one lease."""
    return f"worker {owner}"


def add(tx: Tx, *, owner: str, host: str, step_slots: int, now: int, until: int) -> None:
    """Writes a new process with its first lease."""
    times = {"started_at": now, "lease_until": until}
    tx.enqueue(_ADD, owner=owner, host=host, step_slots=step_slots, draining=0, room=step_slots, **times)


def renew(tx: Tx, owner: str, until: int, *, draining: bool, room: int) -> bool:
    """Renews a lease; False if it is gone, as another process has removed it."""
    return tx.run(_RENEW, of_owner=owner, until=until, new_draining=int(draining), new_room=room) == 1


def remove(tx: Tx, owner: str) -> None:
    """Removes a lease."""
    tx.enqueue(_REMOVE, of_owner=owner)


def remove_lapsed(tx: Tx, lease: LeaseRow) -> bool:
    """Removes a lease that was not renewed in time; False, with nothing changed, if it was renewed meanwhile."""
    return tx.run(_REMOVE_LAPSED, of_owner=lease.owner, not_renewed=lease.lease_until) == 1


def leases(tx: Tx) -> list[LeaseRow]:
    """Returns every lease, also one that was not renewed in time and was not removed yet."""
    return tx.all(_LEASES)


def step_slots(tx: Tx, now: int) -> int:
    """Returns how many steps can run at once on all processes that take new segments."""
    return int(tx.scalar_one(_SLOTS, now=now))
