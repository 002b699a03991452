"""SQL of package lock files, and of the environments built from them on each machine."""

import json
from collections.abc import Collection
from typing import Literal, NamedTuple

from sqlalchemy import and_, bindparam, delete, exists, insert, select, update

from backend.resources.environments.lock import Lock
from backend.storage.database import Tx
from backend.storage.statements import Command, Query, ScalarQuery, select_row
from backend.storage.tables.workflows import environment_builds, environment_locks, environment_packages

State = Literal["building", "built", "failed"]


class WantedRow(NamedTuple):
    """A lock that an environment's newest version has, and its build on this machine; None if it has none yet."""

    digest: str
    requested_at: int
    state: State | None
    updated_at: int | None


class UnwantedRow(NamedTuple):
    """A lock that no environment's newest version has, and the time of the last request to build it."""

    digest: str
    requested_at: int


class LockRow(NamedTuple):
    """A lock: its first build on any machine, the modules of its packages, and the last request to build it.

    The modules are a JSON list.
    """

    requested_at: int
    built_at: int | None
    modules: str | None


class BuildRow(NamedTuple):
    """State of a lock's build on one machine."""

    machine: str
    state: State
    message: str
    size: int | None
    updated_at: int


class BuildLogRow(NamedTuple):
    """Output of uv on a machine, None if it did not build, and the time of the build's last change of state."""

    log: str | None
    updated_at: int


class PackageState(NamedTuple):
    """State of the packages of a lock: `modules` are None until a machine has built them.

    `failure` is the reason why no machine could build them so far, if one tried.
    """

    modules: frozenset[str] | None
    failure: str | None = None


_PACKAGED = exists().where(environment_packages.c.digest == environment_locks.c.digest)
_TEXT = ScalarQuery[str](select(environment_locks.c.lock).where(environment_locks.c.digest == bindparam("digest")))
_LOCK = Query(LockRow, select_row(LockRow, environment_locks).where(environment_locks.c.digest == bindparam("digest")))
_ADD_LOCK = Command(insert(environment_locks), [column.name for column in environment_locks.columns])
_REQUEST = Command(
    update(environment_locks)
    .where(environment_locks.c.digest == bindparam("of_digest"))
    .values(requested_at=bindparam("at", required=True))
)
_FIRST_BUILT = Command(
    update(environment_locks)
    .where(environment_locks.c.digest == bindparam("of_digest"), environment_locks.c.built_at.is_(None))
    .values(built_at=bindparam("at", required=True), modules=bindparam("of_modules", required=True))
)
_UNWANTED = Query(
    UnwantedRow,
    select(environment_locks.c.digest, environment_locks.c.requested_at)
    .where(environment_locks.c.requested_at < bindparam("before"), ~_PACKAGED)
    .order_by(environment_locks.c.digest),
)
_FORGET_BUILDS = Command(delete(environment_builds).where(environment_builds.c.digest == bindparam("digest")))
_REMOVE_LOCK = Command(
    delete(environment_locks).where(
        environment_locks.c.digest == bindparam("of_digest"),
        environment_locks.c.requested_at == bindparam("seen_requested_at"),
        ~_PACKAGED,
    )
)
_FORGET_PACKAGES = Command(
    delete(environment_packages).where(environment_packages.c.resource_id == bindparam("resource_id"))
)
_ADD_PACKAGES = Command(insert(environment_packages), [column.name for column in environment_packages.columns])
_WANTED = Query(
    WantedRow,
    select(
        environment_locks.c.digest,
        environment_locks.c.requested_at,
        environment_builds.c.state,
        environment_builds.c.updated_at,
    )
    .select_from(environment_packages)
    .join(environment_locks, environment_locks.c.digest == environment_packages.c.digest)
    .outerjoin(
        environment_builds,
        and_(
            environment_builds.c.digest == environment_locks.c.digest,
            environment_builds.c.machine == bindparam("machine"),
        ),
    )
    .distinct(),
)
_BUILDS = Query(
    BuildRow,
    select_row(BuildRow, environment_builds)
    .where(environment_builds.c.digest == bindparam("digest"))
    .order_by(environment_builds.c.machine),
)
_BUILD_LOG = Query(
    BuildLogRow,
    select_row(BuildLogRow, environment_builds).where(
        environment_builds.c.digest == bindparam("digest"), environment_builds.c.machine == bindparam("machine")
    ),
)
_ADD_BUILD = Command(insert(environment_builds), [column.name for column in environment_builds.columns])
_FORGET_BUILD = Command(
    delete(environment_builds).where(
        environment_builds.c.digest == bindparam("digest"), environment_builds.c.machine == bindparam("machine")
    )
)
_SEEN = Command(
    update(environment_builds)
    .where(environment_builds.c.machine == bindparam("of_machine"))
    .values(seen_at=bindparam("at", required=True))
)
_FORGET_GONE = Command(delete(environment_builds).where(environment_builds.c.seen_at < bindparam("before")))


def add_lock(tx: Tx, lock: Lock, now: int) -> None:
    """Writes a lock, or asks for a build of an existing one, so that it is not removed as unneeded meanwhile."""
    if not tx.run(_REQUEST, of_digest=lock.digest, at=now):
        row = {"digest": lock.digest, "lock": lock.text, "created_at": now, "requested_at": now}
        tx.enqueue(_ADD_LOCK, **row, built_at=None, modules=None)


def lock_of(tx: Tx, digest: str) -> Lock | None:
    """Returns a lock by its digest, or None."""
    text = tx.scalar(_TEXT, digest=digest)
    return None if text is None else Lock(text)


def set_packages(tx: Tx, resource_id: str, digest: str | None) -> None:
    """Records the lock of the newest version of an environment; None if it has none."""
    tx.enqueue(_FORGET_PACKAGES, resource_id=resource_id)
    if digest is not None:
        tx.enqueue(_ADD_PACKAGES, resource_id=resource_id, digest=digest)


def wanted(tx: Tx, machine: str) -> list[WantedRow]:
    """Returns the locks of all environments at their newest version, with their builds on this machine."""
    return tx.all(_WANTED, machine=machine)


def request_build(tx: Tx, digest: str, now: int) -> None:
    """Makes every machine that failed to build a lock try again."""
    tx.enqueue(_REQUEST, of_digest=digest, at=now)


def remove_unneeded(tx: Tx, kept: Collection[str], before: int, limit: int) -> int:
    """Removes locks, with the records of their builds, that are not in `kept`; returns their number.

    Locks stay that an environment's newest version has, or of which a build was asked for since `before`.
    """
    unneeded = [row for row in tx.all(_UNWANTED, before=before) if row.digest not in kept][:limit]
    for row in unneeded:
        tx.enqueue(_FORGET_BUILDS, digest=row.digest)
        tx.enqueue(_REMOVE_LOCK, of_digest=row.digest, seen_requested_at=row.requested_at)
    return len(unneeded)


def builds(tx: Tx, digest: str) -> list[BuildRow]:
    """Returns the builds of a lock, by machine."""
    return tx.all(_BUILDS, digest=digest)


def build_log(tx: Tx, digest: str, machine: str) -> BuildLogRow | None:
    """Returns the log of a machine's build, or None if it has begun none."""
    return tx.first(_BUILD_LOG, digest=digest, machine=machine)


def package_state(tx: Tx, digest: str) -> PackageState:
    """Returns whether the packages of a lock can be used."""
    row = tx.first(_LOCK, digest=digest)
    if row is not None and row.built_at is not None:
        return PackageState(frozenset(json.loads(row.modules or "[]")))
    states = builds(tx, digest)
    asked = 0 if row is None else row.requested_at
    failed = next((one.message for one in states if one.state == "failed" and one.updated_at >= asked), None)
    return PackageState(None, None if any(one.state == "building" for one in states) else failed)


def record_build(
    tx: Tx,
    digest: str,
    machine: str,
    state: State,
    now: int,
    *,
    message: str = "",
    size: int | None = None,
    modules: tuple[str, ...] = (),
    log: str | None = None,
) -> None:
    """Records the state of a lock's build on a machine."""
    tx.enqueue(_FORGET_BUILD, digest=digest, machine=machine)
    row = {"digest": digest, "machine": machine, "state": state, "message": message, "size": size, "log": log}
    tx.enqueue(_ADD_BUILD, **row, updated_at=now, seen_at=now)
    if state == "built":
        tx.enqueue(_FIRST_BUILT, of_digest=digest, at=now, of_modules=json.dumps(modules))


def forget_build(tx: Tx, digest: str, machine: str) -> None:
    """Removes the record of a build that a machine has removed."""
    tx.enqueue(_FORGET_BUILD, digest=digest, machine=machine)


def report_machine(tx: Tx, machine: str, now: int, gone_before: int) -> None:
    """Records that a machine is alive, and removes records of machines silent since `gone_before`."""
    tx.enqueue(_SEEN, of_machine=machine, at=now)
    tx.enqueue(_FORGET_GONE, before=gone_before)
