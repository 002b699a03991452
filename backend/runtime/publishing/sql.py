"""SQL of the publisher: its queue, and the knowledge graphs to which it publishes."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    and_,
    bindparam,
    delete,
    exists,
    insert,
    literal_column,
    null,
    or_,
    select,
    update,
)

from backend.common.states import RUN_TERMINAL, RunStatus
from backend.storage.database import Tx
from backend.storage.sql_expressions import is_due
from backend.storage.statements import Command, Query, ScalarQuery, select_row
from backend.storage.tables.files import OPEN_STATES, publications, state_in
from backend.storage.tables.runs import runs, status_in
from backend.storage.tables.workflows import resource_versions, resources


class GraphRow(NamedTuple):
    """A knowledge graph at its newest version."""

    resource_id: str
    version: int


class PolicyRow(NamedTuple):
    """The PII policy of a run as JSON, and the API key of the run."""

    pii_policy: str
    key_id: str


class OrderedPublicationRow(NamedTuple):
    """A publication with the manifest of its knowledge graph."""

    run_id: str
    graph_id: str
    graph_version: int
    entry: str
    requested_at: int
    attempts: int
    definition: str


class ClaimRow(NamedTuple):
    """A claimed publication or removal, with its owner and the time until which it is claimed."""

    run_id: str
    graph_id: str
    state: str
    claimed_by: str
    claimed_until: int


class WaitingPublicationRow(NamedTuple):
    """A publication that is due, with its run's key, and whether the run has ended."""

    run_id: str
    graph_id: str
    key_id: str
    ended: bool


PENDING: Final = "pending"
LANDED: Final = "landed"
KEPT: Final = "kept"
FAILED: Final = "failed"
REMOVING: Final = "removing"
"""States: a pending publication lands in its graph, and is kept when its run completes; else it fails or is removed."""

LONGEST_WAIT_MS: Final = 256_000
"""Longest wait for a next attempt; a longer wait was set by a clock that was ahead, and counts as over."""

CLAIM_MS: Final = 360_000
"""Time of a claim without renewal: longer than an update of a store, which may outlive the process."""

_RUN: Final[BindParameter[str]] = bindparam("of_run_id")
_GRAPH: Final[BindParameter[str]] = bindparam("of_graph_id")
_ONE: Final[tuple[ColumnElement[bool], ...]] = (publications.c.run_id == _RUN, publications.c.graph_id == _GRAPH)
_NOW: Final[BindParameter[int]] = bindparam("now")
_OWNER: Final[BindParameter[str]] = bindparam("of_owner")
_IS_OWN: Final = publications.c.claimed_by == _OWNER
_IS_FREE: Final = or_(
    publications.c.claimed_by.is_(None),
    is_due(publications.c.claimed_until, _NOW, CLAIM_MS),
)


def _run_ended_as(*statuses: str) -> ColumnElement[bool]:
    return exists().where(runs.c.run_id == publications.c.run_id, status_in(*statuses))


_OPEN: Final = state_in(*OPEN_STATES)
_IS_DUE: Final = is_due(publications.c.next_attempt_at, _NOW, LONGEST_WAIT_MS)
_TO_REMOVE: Final = and_(_OPEN, state_in(REMOVING), _IS_DUE, or_(_IS_FREE, _IS_OWN))
_GRAPH_NAMED = Query(
    GraphRow,
    select_row(GraphRow, resources).where(
        resources.c.kind == literal_column("'knowledge_graph'"), resources.c.name == bindparam("of_name")
    ),
)
_POLICY = Query(PolicyRow, select_row(PolicyRow, runs).where(runs.c.run_id == _RUN))
_ADD = Command(insert(publications), [column.name for column in publications.columns])
_ANY_OPEN = ScalarQuery[str](select(publications.c.run_id).where(_OPEN).limit(literal_column("1")))
# For SQLite, which would otherwise scan all publications of a graph.
_BY_OPEN: Final = "INDEXED BY ix_publications_open"
_GRAPHS_TO_CLEAR = ScalarQuery[str](
    select(publications.c.graph_id).where(_TO_REMOVE).distinct().with_hint(publications, _BY_OPEN, "sqlite")
)
_WITH_MANIFEST = select_row(OrderedPublicationRow, publications, resource_versions).join(
    resource_versions,
    (resource_versions.c.resource_id == publications.c.graph_id)
    & (resource_versions.c.version == publications.c.graph_version),
)
_REMOVALS = Query(
    OrderedPublicationRow,
    _WITH_MANIFEST.where(_TO_REMOVE, publications.c.graph_id == _GRAPH)
    .order_by(publications.c.next_attempt_at, publications.c.run_id)
    .limit(bindparam("most"))
    .with_hint(publications, _BY_OPEN, "sqlite"),
)
_WAITING = Query(
    WaitingPublicationRow,
    select_row(WaitingPublicationRow, publications, runs, ended=status_in(*sorted(RUN_TERMINAL)))
    .join(runs, runs.c.run_id == publications.c.run_id)
    .where(_OPEN, state_in(PENDING), _IS_DUE, or_(_IS_FREE, _IS_OWN))
    .order_by(publications.c.next_attempt_at, publications.c.run_id)
    .limit(bindparam("most"))
    .with_hint(publications, _BY_OPEN, "sqlite"),
)
_PENDING = Query(OrderedPublicationRow, _WITH_MANIFEST.where(*_ONE, publications.c.state == PENDING))
_HAS_LANDED = ScalarQuery[str](select(publications.c.state).where(*_ONE, state_in(LANDED, KEPT)))
_UNCLAIMED: Final = {"claimed_by": null(), "claimed_until": null()}
_CLAIMS = Query(
    ClaimRow,
    select_row(ClaimRow, publications).where(_OPEN, _IS_OWN).with_hint(publications, _BY_OPEN, "sqlite"),
)
_CLAIM = Command(
    update(publications)
    .where(*_ONE, publications.c.state == bindparam("of_state"), or_(_IS_FREE, _IS_OWN))
    .values(claimed_by=_OWNER, claimed_until=bindparam("until"))
)
_RENEW = Command(update(publications).where(*_ONE, _IS_OWN).values(claimed_until=bindparam("until")))
_RELEASE = Command(update(publications).where(*_ONE, _IS_OWN).values(_UNCLAIMED))
_KEEP = Command(
    update(publications).where(_OPEN, state_in(LANDED), _run_ended_as(RunStatus.COMPLETED)).values(state=KEPT)
)
_WITHDRAW = Command(
    update(publications)
    .where(_OPEN, state_in(PENDING, LANDED), _run_ended_as(*sorted({*RUN_TERMINAL} - {RunStatus.COMPLETED})))
    .values(state=REMOVING, attempts=0, next_attempt_at=_NOW)
)
_RESUME = Command(update(publications).where(_OPEN).values(next_attempt_at=_NOW))
_RELEASE_ALL = Command(update(publications).where(_OPEN).values(_UNCLAIMED))
_REMOVE = Command(
    update(publications).where(publications.c.run_id == _RUN).values(state=REMOVING, attempts=0, next_attempt_at=_NOW)
)
_LAND = Command(update(publications).where(*_ONE, publications.c.state == PENDING).values(state=LANDED))
_FAIL = Command(update(publications).where(*_ONE, publications.c.state == PENDING, _IS_OWN).values(state=FAILED))
_REMOVE_AGAIN = Command(
    update(publications).where(*_ONE).values(state=REMOVING, attempts=0, next_attempt_at=_NOW, **_UNCLAIMED)
)
_POSTPONE = Command(
    update(publications)
    .where(*_ONE, _IS_OWN)
    .values(attempts=publications.c.attempts + 1, next_attempt_at=bindparam("new_next_attempt_at"))
)
_DELETE = Command(delete(publications).where(*_ONE, publications.c.state == REMOVING, _IS_OWN))


def graph_named(tx: Tx, name: str) -> GraphRow | None:
    """Returns id and version of a knowledge graph, or None."""
    return tx.first(_GRAPH_NAMED, of_name=name)


def pii_policy(tx: Tx, run_id: str) -> PolicyRow:
    """Returns the PII policy of a run as JSON, and the API key of the run."""
    return tx.one(_POLICY, of_run_id=run_id)


def order(tx: Tx, *, run_id: str, graph_id: str, graph_version: int, entry: str, now: int) -> None:
    """Writes one publication, due at once."""
    _add(tx, run_id, graph_id, graph_version, entry, PENDING, now)


def any_open(tx: Tx) -> bool:
    """Returns whether a publication waits to be made, removed or settled."""
    return tx.exists(_ANY_OPEN)


def graphs_to_clear(tx: Tx, owner: str, now: int) -> list[str]:
    """Returns the graphs with a removal that is due and that no other owner has claimed."""
    return tx.scalars(_GRAPHS_TO_CLEAR, of_owner=owner, now=now)


def claim_removals(tx: Tx, graph_id: str, owner: str, now: int, most: int) -> list[OrderedPublicationRow]:
    """Claims and returns the removals from a graph that are due and that no other owner has claimed, longest due first.

    A claim left by a publication delays its removal, because the update of the graph may not have ended yet. So
    removals have an owner of their own, which takes over only claims left by removals.
    """
    rows = tx.all(_REMOVALS, of_graph_id=graph_id, of_owner=owner, now=now, most=most)
    return [row for row in rows if claim(tx, row.run_id, row.graph_id, REMOVING, owner, now)]


def claim(tx: Tx, run_id: str, graph_id: str, state: str, owner: str, now: int) -> bool:
    """Claims a publication for `CLAIM_MS`, or renews the claim; False if another owner has it, or its state changed."""
    return bool(
        tx.run(
            _CLAIM,
            of_run_id=run_id,
            of_graph_id=graph_id,
            of_state=state,
            of_owner=owner,
            now=now,
            until=now + CLAIM_MS,
        )
    )


def renew(tx: Tx, claims: Iterable[ClaimRow], now: int) -> None:
    """Renews claims that their owners still have."""
    rows = [{"of_run_id": each.run_id, "of_graph_id": each.graph_id, "of_owner": each.claimed_by} for each in claims]
    tx.many(_RENEW, [row | {"until": now + CLAIM_MS} for row in rows])


def claims(tx: Tx, owners: Iterable[str]) -> list[ClaimRow]:
    """Returns all open publications that the owners have claimed."""
    return [row for owner in owners for row in tx.all(_CLAIMS, of_owner=owner)]


def release(tx: Tx, run_id: str, graph_id: str, owner: str) -> None:
    """Ends a claim of the owner, if it still has it."""
    tx.enqueue(_RELEASE, of_run_id=run_id, of_graph_id=graph_id, of_owner=owner)


def waiting(tx: Tx, owner: str, now: int, most: int) -> list[WaitingPublicationRow]:
    """Returns the publications that are due and that no other owner has claimed, longest due first."""
    return tx.all(_WAITING, of_owner=owner, now=now, most=most)


def pending(tx: Tx, run_id: str, graph_id: str) -> OrderedPublicationRow | None:
    """Returns a pending publication, or None."""
    return tx.first(_PENDING, of_run_id=run_id, of_graph_id=graph_id)


def settle_ended(tx: Tx, now: int) -> None:
    """Keeps the publications of completed runs, and requests the removal of those of failed and cancelled ones."""
    tx.enqueue(_KEEP)
    tx.enqueue(_WITHDRAW, now=now)


def resume(tx: Tx, now: int, *, alone: bool) -> None:
    """Makes all open publications due now; with `alone`, where no other process uses the database, ends all claims."""
    tx.enqueue(_RESUME, now=now)
    if alone:
        tx.enqueue(_RELEASE_ALL)


def remove(tx: Tx, run_id: str, now: int) -> int:
    """Requests the removal of a run's publications; returns their number."""
    return tx.run(_REMOVE, of_run_id=run_id, now=now)


def land(tx: Tx, row: OrderedPublicationRow, now: int) -> None:
    """Records that the named graph has the publication, or else requests its removal.

    A publication that landed before does not change. If it failed, or its removal was requested or is done, the removal
    is requested anew, and the claim of a removal that may have come before the update ends.
    """
    one = {"of_run_id": row.run_id, "of_graph_id": row.graph_id}
    if tx.run(_LAND, **one) or tx.exists(_HAS_LANDED, **one):
        return
    if not tx.run(_REMOVE_AGAIN, **one, now=now):
        _add(tx, row.run_id, row.graph_id, row.graph_version, row.entry, REMOVING, now)


def fail(tx: Tx, run_id: str, graph_id: str, owner: str) -> None:
    """Ends a pending publication that the owner has claimed."""
    tx.enqueue(_FAIL, of_run_id=run_id, of_graph_id=graph_id, of_owner=owner)


def postpone(tx: Tx, run_id: str, graph_id: str, owner: str, until: int) -> None:
    """Makes a publication or removal that the owner has claimed due at `until`."""
    tx.enqueue(_POSTPONE, of_run_id=run_id, of_graph_id=graph_id, of_owner=owner, new_next_attempt_at=until)


def delete_removed(tx: Tx, keys: Iterable[tuple[str, str]], owner: str) -> None:
    """Deletes publications, by run and graph, whose removal the owner has claimed and carried out."""
    rows = [{"of_run_id": run_id, "of_graph_id": graph_id, "of_owner": owner} for run_id, graph_id in keys]
    tx.many(_DELETE, rows)


def _add(tx: Tx, run_id: str, graph_id: str, graph_version: int, entry: str, state: str, now: int) -> None:
    tx.enqueue(
        _ADD,
        run_id=run_id,
        graph_id=graph_id,
        graph_version=graph_version,
        entry=entry,
        state=state,
        requested_at=now,
        attempts=0,
        next_attempt_at=now,
        claimed_by=None,
        claimed_until=None,
    )
