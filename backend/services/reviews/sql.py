"""SQL of reviews: an approval with its run, the steps that it needs, and the decisions of a run."""

from typing import Final, NamedTuple

from sqlalchemy import (
    BigInteger,
    BindParameter,
    Column,
    ColumnElement,
    Text,
    bindparam,
    func,
    literal_column,
    or_,
    select,
    tuple_,
)

from backend.common.states import APPROVAL_DECIDED, ApprovalState
from backend.services.runs.approvals_sql import PENDING_APPROVALS, Onlooker, PendingApprovalRow
from backend.storage.database import Tx
from backend.storage.sql_expressions import is_listed, listed
from backend.storage.statements import Query, ScalarQuery, select_row
from backend.storage.tables.runs import runs
from backend.storage.tables.segments import approvals, steps

MOST_EXAMINED: Final = 5_000
"""Most decisions examined for one page of filters, which no index serves."""


class DecisionFilters(NamedTuple):
    """Filters of decisions; empty texts mean any."""

    workflow_id: str
    decided_by: str
    state: str
    since: int

    @property
    def filtered(self) -> bool:
        """Returns whether a filter other than the time is set."""
        return bool(self.workflow_id or self.decided_by or self.state)


class DecisionPosition(NamedTuple):
    """Position of a decision in their order."""

    decided_at: int
    approval_id: str


class ReviewedApprovalRow(NamedTuple):
    """An approval in any state."""

    approval_id: str
    state: str
    decided_at: int | None
    decided_by: str | None


class ReviewedRunRow(NamedTuple):
    """The run of an approval, with the approval's step and the steps that it needs, as JSON."""

    run_id: str
    key_id: str
    approval_id: str
    parameters: str | None
    input_text: str | None
    inputs_manifest: str | None
    pii_policy: str
    pii_redaction: str | None
    step: str
    needs: str


class NeededStepRow(NamedTuple):
    """A step that an approval needs, with its return value as JSON."""

    step: str
    name: str
    position: int
    value: str | None


class DecisionRow(NamedTuple):
    """A decided approval; `decided_by` is None where its deadline rejected it."""

    approval_id: str
    step: str
    title: str
    state: str
    decided_at: int
    decided_by: str | None


class RunDecisionRow(NamedTuple):
    """A decision with its run."""

    approval_id: str
    step: str
    title: str
    state: str
    decided_at: int
    decided_by: str
    run_id: str
    workflow_id: str
    workflow_name: str
    comment: str | None
    form: str | None
    requested_at: int
    pii_policy: str


class GateRow(NamedTuple):
    """A step of a workflow at which approvals wait, and their number."""

    workflow_id: str
    workflow_name: str
    step: str
    title: str
    pending: int


_RUN: Final[BindParameter[str]] = bindparam("of_run_id")
_APPROVAL: Final[BindParameter[str]] = bindparam("of_approval_id")

_GET = Query(
    PendingApprovalRow,
    PENDING_APPROVALS.where(approvals.c.approval_id == _APPROVAL),
)
_STATE = Query(
    ReviewedApprovalRow, select_row(ReviewedApprovalRow, approvals).where(approvals.c.approval_id == _APPROVAL)
)
_REVIEWED_RUN = Query(
    ReviewedRunRow,
    select_row(ReviewedRunRow, runs, approvals, steps)
    .select_from(approvals)
    .join(runs, runs.c.run_id == approvals.c.run_id)
    .join(steps, (steps.c.run_id == approvals.c.run_id) & (steps.c.step == approvals.c.step))
    .where(approvals.c.approval_id == _APPROVAL),
)
_NEEDED_STEP = Query(
    NeededStepRow,
    select_row(NeededStepRow, steps).where(steps.c.run_id == _RUN, steps.c.step == bindparam("of_step")),
)
_DECISIONS = Query(
    DecisionRow,
    select_row(DecisionRow, approvals)
    .where(
        approvals.c.run_id == _RUN, approvals.c.state.in_([literal_column(f"'{state}'") for state in APPROVAL_DECIDED])
    )
    .order_by(approvals.c.decided_at, approvals.c.approval_id),
)


def _any_or(column: Column[str], name: str) -> ColumnElement[bool]:
    """Returns the condition that a column equals a parameter; an empty parameter allows any value."""
    return or_(bindparam(name, type_=Text) == literal_column("''"), column == bindparam(name, type_=Text))


_PLACE: Final = tuple_(approvals.c.decided_at, approvals.c.approval_id)
_DECIDED_WITHIN: Final = (
    approvals.c.decided_by.is_not(None),
    tuple_(bindparam("since", type_=BigInteger), bindparam("since_id", type_=Text)) <= _PLACE,
    tuple_(bindparam("before", type_=BigInteger), bindparam("before_id", type_=Text)) > _PLACE,
)
_NEWEST_FIRST: Final = (approvals.c.decided_at.desc(), approvals.c.approval_id.desc())
_ALL_DECISIONS = Query(
    RunDecisionRow,
    select_row(RunDecisionRow, approvals, runs)
    .join(runs, runs.c.run_id == approvals.c.run_id)
    .where(
        *_DECIDED_WITHIN,
        _any_or(runs.c.workflow_id, "of_workflow_id"),
        _any_or(approvals.c.decided_by, "of_decided_by"),
        _any_or(approvals.c.state, "of_state"),
    )
    .order_by(*_NEWEST_FIRST)
    .limit(bindparam("limit")),
)
_LAST_EXAMINED = Query(
    DecisionPosition,
    select_row(DecisionPosition, approvals)
    .where(*_DECIDED_WITHIN)
    .order_by(*_NEWEST_FIRST)
    .limit(literal_column("1"))
    .offset(bindparam("most")),
)
_IS_PENDING: Final = approvals.c.state == literal_column(f"'{ApprovalState.PENDING}'")
# The name and the title may differ between versions.
_PENDING_GATES: Final = (
    select_row(
        GateRow,
        approvals,
        runs,
        workflow_name=func.max(runs.c.workflow_name),
        title=func.max(approvals.c.title),
        pending=func.count(),
    )
    .select_from(approvals)
    .join(runs, runs.c.run_id == approvals.c.run_id)
    .where(_IS_PENDING)
    .group_by(runs.c.workflow_id, approvals.c.step)
    .order_by(func.max(runs.c.workflow_name), runs.c.workflow_id, approvals.c.step)
    .limit(bindparam("limit"))
)
_GATES = Query(GateRow, _PENDING_GATES)
_OF_WORKFLOWS: Final = is_listed(runs.c.workflow_id, "of_workflow_ids")
_GATES_OF_WORKFLOWS = Query(GateRow, _PENDING_GATES.where(_OF_WORKFLOWS))
_PENDING_TOTAL: Final = select(func.count().label("total")).select_from(approvals).where(_IS_PENDING)
_TOTAL: Final[ScalarQuery[int]] = ScalarQuery(_PENDING_TOTAL)
_TOTAL_OF_WORKFLOWS: Final[ScalarQuery[int]] = ScalarQuery(
    _PENDING_TOTAL.join(runs, runs.c.run_id == approvals.c.run_id).where(_OF_WORKFLOWS)
)


def approval(tx: Tx, approval_id: str, onlooker: Onlooker) -> PendingApprovalRow | None:
    """Returns an approval in any state, with the names of its run, or None."""
    return tx.first(_GET, of_approval_id=approval_id, of_person=onlooker.person, of_now=onlooker.at)


def state(tx: Tx, approval_id: str) -> ReviewedApprovalRow:
    """Returns the state of an approval that exists."""
    return tx.one(_STATE, of_approval_id=approval_id)


def reviewed_run(tx: Tx, approval_id: str) -> ReviewedRunRow:
    """Returns the run of an approval that exists."""
    return tx.one(_REVIEWED_RUN, of_approval_id=approval_id)


def needed_step(tx: Tx, run_id: str, step: str) -> NeededStepRow:
    """Returns a step of a run."""
    return tx.one(_NEEDED_STEP, of_run_id=run_id, of_step=step)


def decisions(tx: Tx, run_id: str) -> list[DecisionRow]:
    """Returns the decided approvals of a run, in the order of their decisions."""
    return tx.all(_DECISIONS, of_run_id=run_id)


def all_decisions(
    tx: Tx,
    chosen: DecisionFilters,
    before: DecisionPosition,
    limit: int,
    workflow_ids: frozenset[str] | None = None,
) -> tuple[list[RunDecisionRow], DecisionPosition | None]:
    """Returns decisions of some workflows, newest first, after a position, and the position where the search stopped.

    That position is None unless the search stopped before it found as many decisions as asked for.
    """
    asked = [chosen.workflow_id]
    if workflow_ids is not None:
        asked = [each for each in workflow_ids if chosen.workflow_id in {"", each}]
    window = {"before": before.decided_at, "before_id": before.approval_id}
    lower, stopped = DecisionPosition(chosen.since, ""), None
    if asked and (chosen.filtered or workflow_ids is not None):
        most = MOST_EXAMINED // len(asked)
        stopped = tx.first(_LAST_EXAMINED, **window, since=lower.decided_at, since_id="", most=most)
        lower = stopped or lower
    found = [
        row
        for workflow_id in asked
        for row in tx.all(
            _ALL_DECISIONS,
            **window,
            since=lower.decided_at,
            since_id=lower.approval_id,
            of_workflow_id=workflow_id,
            of_decided_by=chosen.decided_by,
            of_state=chosen.state,
            limit=limit,
        )
    ]
    rows = sorted(found, key=lambda row: (row.decided_at, row.approval_id), reverse=True)[:limit]
    return rows, stopped if len(rows) < limit else None


def gates(tx: Tx, limit: int, workflow_ids: frozenset[str] | None = None) -> list[GateRow]:
    """Returns up to `limit` gates of some workflows, or of all, at which approvals wait, by workflow and step."""
    if workflow_ids is None:
        return tx.all(_GATES, limit=limit)
    return tx.all(_GATES_OF_WORKFLOWS, of_workflow_ids=listed(workflow_ids), limit=limit)


def pending_total(tx: Tx, workflow_ids: frozenset[str] | None = None) -> int:
    """Returns the number of waiting approvals of some workflows, or of all."""
    if workflow_ids is None:
        return tx.scalar_one(_TOTAL)
    return tx.scalar_one(_TOTAL_OF_WORKFLOWS, of_workflow_ids=listed(workflow_ids))
