"""SQL of the publisher: its queue, and the knowledge graphs that it publishes to."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from sqlalchemy import (
    BigInteger,
    BindParameter,
    ColumnElement,
    and_,
    bindparam,
    cast,
    delete,
    exists,
    insert,
    literal_column,
    or_,
    select,
    update,
)

from backend.run_status import TERMINAL, RunStatus
from backend.storage.database import Tx
from backend.storage.statements import Command, Query, ScalarQuery, select_row
from backend.storage.tables.publishing import publications
from backend.storage.tables.runs import runs, status_in
from backend.storage.tables.workflows import resource_versions, resources


class GraphRow(NamedTuple):
    """A knowledge graph at its newest version."""

    resource_id: str
    version: int


class PolicyRow(NamedTuple):
    """The PII policy of a run as JSON, and its key."""

    pii_policy: str
    key_id: str


class PublicationRow(NamedTuple):
    """A publication with the manifest of its knowledge graph."""

    run_id: str
    graph_id: str
    graph_version: int
    entry: str
    requested_at: int
    attempts: int
    definition: str


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

LONGEST_WAIT_MS: Final = 256_000
"""What waits longer for its next attempt was postponed by a clock that was ahead, and is due."""

_RUN: Final[BindParameter[str]] = bindparam("of_run_id")
_GRAPH: Final[BindParameter[str]] = bindparam("of_graph_id")
_ONE: Final[tuple[ColumnElement[bool], ...]] = (publications.c.run_id == _RUN, publications.c.graph_id == _GRAPH)
_NOW: Final[BindParameter[int]] = bindparam("now")


def _in_state(*states: str) -> ColumnElement[bool]:
    """Returns a condition with the states as text, so that the partial index over open publications serves."""
    return publications.c.state.in_([literal_column(f"'{state}'") for state in states])


def _run_ended_as(*statuses: str) -> ColumnElement[bool]:
    return exists().where(runs.c.run_id == publications.c.run_id, status_in(*statuses))


_OPEN: Final = _in_state(PENDING, LANDED, REMOVING)
_IS_DUE: Final = or_(
    publications.c.next_attempt_at <= _NOW,
    publications.c.next_attempt_at > cast(_NOW, BigInteger) + literal_column(str(LONGEST_WAIT_MS)),
)
_TO_REMOVE: Final = and_(_OPEN, _in_state(REMOVING), _IS_DUE)
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
_WITH_MANIFEST = select_row(PublicationRow, publications, resource_versions).join(
    resource_versions,
    (resource_versions.c.resource_id == publications.c.graph_id)
    & (resource_versions.c.version == publications.c.graph_version),
)
_REMOVALS = Query(
    PublicationRow,
    _WITH_MANIFEST.where(_TO_REMOVE, publications.c.graph_id == _GRAPH)
    .order_by(publications.c.next_attempt_at, publications.c.run_id)
    .limit(bindparam("most"))
    .with_hint(publications, _BY_OPEN, "sqlite"),
)
_WAITING = Query(
    WaitingPublicationRow,
    select_row(WaitingPublicationRow, publications, runs, ended=status_in(*sorted(TERMINAL)))
    .join(runs, runs.c.run_id == publications.c.run_id)
    .where(_OPEN, _in_state(PENDING), _IS_DUE)
    .order_by(publications.c.next_attempt_at, publications.c.run_id)
    .limit(bindparam("most"))
    .with_hint(publications, _BY_OPEN, "sqlite"),
)
_PENDING = Query(PublicationRow, _WITH_MANIFEST.where(*_ONE, publications.c.state == PENDING))
_STATE = ScalarQuery[str](select(publications.c.state).where(*_ONE))
_KEEP = Command(
    update(publications).where(_OPEN, _in_state(LANDED), _run_ended_as(RunStatus.COMPLETED)).values(state=KEPT)
)
_WITHDRAW = Command(
    update(publications)
    .where(_OPEN, _in_state(PENDING, LANDED), _run_ended_as(*sorted(TERMINAL - {RunStatus.COMPLETED})))
    .values(state=REMOVING, attempts=0, next_attempt_at=_NOW)
)
_RESUME = Command(update(publications).where(_OPEN).values(next_attempt_at=_NOW))
_REMOVE = Command(
    update(publications).where(publications.c.run_id == _RUN).values(state=REMOVING, attempts=0, next_attempt_at=_NOW)
)
_SETTLE = Command(
    update(publications).where(*_ONE, publications.c.state == PENDING).values(state=bindparam("new_state"))
)
_POSTPONE = Command(
    update(publications)
    .where(*_ONE)
    .values(attempts=publications.c.attempts + 1, next_attempt_at=bindparam("new_next_attempt_at"))
)
_DELETE = Command(delete(publications).where(*_ONE, publications.c.state == REMOVING))


def graph_named(tx: Tx, name: str) -> GraphRow | None:
    """Returns id and version of a knowledge graph, or None."""
    return tx.first(_GRAPH_NAMED, of_name=name)


def pii_policy(tx: Tx, run_id: str) -> PolicyRow:
    """Returns the run's PII policy as JSON, and its key."""
    return tx.one(_POLICY, of_run_id=run_id)


def order(tx: Tx, *, run_id: str, graph_id: str, graph_version: int, entry: str, now: int) -> None:
    """Writes one publication, due at once."""
    tx.enqueue(
        _ADD,
        run_id=run_id,
        graph_id=graph_id,
        graph_version=graph_version,
        entry=entry,
        state=PENDING,
        requested_at=now,
        attempts=0,
        next_attempt_at=now,
    )


def any_open(tx: Tx) -> bool:
    """Returns whether there is anything to publish, to remove or to settle."""
    return tx.exists(_ANY_OPEN)


def graphs_to_clear(tx: Tx, now: int) -> list[str]:
    """Returns the graphs with a removal that is due."""
    return tx.scalars(_GRAPHS_TO_CLEAR, now=now)


def removals(tx: Tx, graph_id: str, now: int, most: int) -> list[PublicationRow]:
    """Returns the removals from a graph that are due, longest due first."""
    return tx.all(_REMOVALS, of_graph_id=graph_id, now=now, most=most)


def waiting(tx: Tx, now: int, most: int) -> list[WaitingPublicationRow]:
    """Returns the publications that are due, longest due first."""
    return tx.all(_WAITING, now=now, most=most)


def pending(tx: Tx, run_id: str, graph_id: str) -> PublicationRow | None:
    """Returns a pending publication, or None."""
    return tx.first(_PENDING, of_run_id=run_id, of_graph_id=graph_id)


def is_pending(tx: Tx, run_id: str, graph_id: str) -> bool:
    """Returns whether a publication is still pending."""
    return tx.scalar(_STATE, of_run_id=run_id, of_graph_id=graph_id) == PENDING


def settle_ended(tx: Tx, now: int) -> None:
    """Keeps the publications of completed runs, and requests the removal of those of failed and cancelled ones."""
    tx.enqueue(_KEEP)
    tx.enqueue(_WITHDRAW, now=now)


def resume(tx: Tx, now: int) -> None:
    """Makes everything that is open due now."""
    tx.enqueue(_RESUME, now=now)


def remove(tx: Tx, run_id: str, now: int) -> int:
    """Requests the removal of everything that a run published; returns from how many graphs."""
    return tx.run(_REMOVE, of_run_id=run_id, now=now)


def settle(tx: Tx, run_id: str, graph_id: str, state: str) -> bool:
    """Moves a pending publication to its final state; False if its removal was requested meanwhile."""
    return tx.run(_SETTLE, of_run_id=run_id, of_graph_id=graph_id, new_state=state) > 0


def postpone(tx: Tx, run_id: str, graph_id: str, until: int) -> None:
    """Makes a publication or removal due at that time."""
    tx.enqueue(_POSTPONE, of_run_id=run_id, of_graph_id=graph_id, new_next_attempt_at=until)


def removed(tx: Tx, keys: Iterable[tuple[str, str]]) -> None:
    """Deletes publications, by run and graph, that were removed."""
    tx.many(_DELETE, [{"of_run_id": run_id, "of_graph_id": graph_id} for run_id, graph_id in keys])
