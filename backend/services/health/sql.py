"""SQL of the health page: processes, leases, names of secrets, and the oldest run with data."""

from typing import Final, NamedTuple

from sqlalchemy import bindparam, delete, insert, literal_column, select, update

from backend.services.workflows.manifests.names import RESOURCE_KINDS
from backend.storage.database import Tx
from backend.storage.sql_expressions import json_member
from backend.storage.statements import Command, Query, ScalarQuery, select_row
from backend.storage.tables.deployment import processes, workers
from backend.storage.tables.keys import api_keys
from backend.storage.tables.runs import runs
from backend.storage.tables.workflows import resources

MOST_SHOWN: Final = 200


class ProcessRow(NamedTuple):
    """Last report of a process; times and `clock_ahead` in milliseconds, sizes in bytes, filling in bytes an hour.

    `unusable_backends` is a JSON list of texts.
    """

    process_id: str
    part: str
    host: str
    pid: int
    release: str
    started_at: int
    seen_at: int
    clock_ahead: int | None = None
    data_total: int | None = None
    data_free: int | None = None
    objects_total: int | None = None
    objects_free: int | None = None
    data_filling: int | None = None
    objects_filling: int | None = None
    certificate_expires_at: int | None = None
    unusable_backends: str | None = None


class WorkerRow(NamedTuple):
    """The lease of a process that executes runs."""

    owner: str
    host: str
    step_slots: int
    started_at: int
    lease_until: int
    draining: int


class SecretRow(NamedTuple):
    """The secrets that a resource names at its newest version; `secrets` is a JSON list."""

    resource_id: str
    kind: str
    name: str
    secret: str | None
    api_key: str | None
    secrets: str | None


class ExpiringKeyRow(NamedTuple):
    """A key, and when it expires."""

    key_id: str
    name: str
    expires_at: int


_REPORTED: Final = ProcessRow._fields[ProcessRow._fields.index("seen_at") :]
_ADD = Command(insert(processes), [column.name for column in processes.columns])
_REPORT = Command(
    update(processes)
    .where(processes.c.process_id == bindparam("of_process_id"))
    .values({name: bindparam(f"new_{name}", type_=processes.c[name].type) for name in _REPORTED})
)
_REMOVE = Command(delete(processes).where(processes.c.process_id == bindparam("of_process_id")))
_FORGET = Command(
    delete(processes).where(
        (processes.c.seen_at < bindparam("before"))
        | (processes.c.seen_at > bindparam("after"))
        | ((processes.c.seen_at < bindparam("edges_before")) & (processes.c.part == literal_column("'edge'")))
    )
)
_PROCESSES = Query(
    ProcessRow,
    select_row(ProcessRow, processes)
    .order_by(processes.c.part, processes.c.host, processes.c.started_at, processes.c.process_id)
    .limit(literal_column(str(MOST_SHOWN))),
)
_WORKERS = Query(
    WorkerRow,
    select(*(workers.c[name] for name in WorkerRow._fields))
    .order_by(workers.c.host, workers.c.started_at)
    .limit(literal_column(str(MOST_SHOWN))),
)

_SECRETS = Query(
    SecretRow,
    select_row(
        SecretRow,
        resources,
        **{name: json_member(resources.c.definition, name) for name in ("secret", "api_key", "secrets")},
    )
    # Without deleted resources, whose kinds differ.
    .where(resources.c.kind.in_([literal_column(f"'{kind}'") for kind in RESOURCE_KINDS.values()]))
    .order_by(resources.c.kind, resources.c.name),
)
_OLDEST_FINISHED = ScalarQuery[int](
    select(runs.c.finished_at)
    # The condition of the partial index.
    .where(runs.c.finished_at < bindparam("before"), runs.c.data_purged_at.is_(None))
    .order_by(runs.c.finished_at)
    .limit(literal_column("1"))
)

_EXPIRING_KEYS = Query(
    ExpiringKeyRow,
    select_row(ExpiringKeyRow, api_keys)
    .where(
        api_keys.c.expires_at > bindparam("at_ms"),
        api_keys.c.expires_at <= bindparam("until"),
        api_keys.c.revoked_at.is_(None),
    )
    .order_by(api_keys.c.expires_at)
    .limit(literal_column(str(MOST_SHOWN))),
)


def report(tx: Tx, row: ProcessRow) -> None:
    """Writes the report of a process."""
    if not tx.run(_REPORT, of_process_id=row.process_id, **{f"new_{name}": getattr(row, name) for name in _REPORTED}):
        tx.enqueue(_ADD, **row._asdict())


def remove(tx: Tx, process_id: str) -> None:
    """Removes a process that shuts down."""
    tx.enqueue(_REMOVE, of_process_id=process_id)


def remove_silent(tx: Tx, *, before: int, edges_before: int, after: int) -> None:
    """Removes processes silent since `before`, and edges, which do not report their end, since `edges_before`.

    Also removes reports later than `after`, in the future, which a clock that was ahead has made.
    """
    tx.enqueue(_FORGET, before=before, edges_before=edges_before, after=after)


def all_processes(tx: Tx) -> list[ProcessRow]:
    """Returns processes by part, host and start."""
    return tx.all(_PROCESSES)


def all_workers(tx: Tx) -> list[WorkerRow]:
    """Returns leases by host and start, ended ones included."""
    return tx.all(_WORKERS)


def secrets_of_resources(tx: Tx) -> list[SecretRow]:
    """Returns the secrets that each resource names."""
    return tx.all(_SECRETS)


def oldest_finished(tx: Tx, now: int) -> int | None:
    """Returns the time when the oldest run with data finished; None if no finished run has data."""
    return tx.scalar(_OLDEST_FINISHED, before=now + 1)


def keys_that_expire(tx: Tx, now: int, until: int) -> list[ExpiringKeyRow]:
    """Returns usable keys that expire until then, the first to expire first."""
    return tx.all(_EXPIRING_KEYS, at_ms=now, until=until)
