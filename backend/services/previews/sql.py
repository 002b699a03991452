"""SQL of previews: a run with its policy or its inputs, and one of its steps."""

from typing import NamedTuple

from sqlalchemy import BindParameter, bindparam

from backend.storage.database import Tx
from backend.storage.statements import Query, select_row
from backend.storage.tables.runs import runs
from backend.storage.tables.segments import steps


class PreviewedRunRow(NamedTuple):
    """Columns of a run that a preview reads."""

    run_id: str
    key_id: str
    status: str
    pii_policy: str
    pii_redaction: str | None
    redaction_state: str
    summary_markdown: str | None


class RunInputsRow(NamedTuple):
    """A run with its inputs and its policy."""

    run_id: str
    key_id: str
    pii_policy: str
    pii_redaction: str | None
    parameters: str | None
    input_text: str | None
    inputs_manifest: str | None


class PreviewedStepRow(NamedTuple):
    """A step with its return value as JSON."""

    step: str
    status: str
    attempt: int
    value: str | None


_OF_RUN: BindParameter[str] = bindparam("of_run_id")
_RUN = Query(PreviewedRunRow, select_row(PreviewedRunRow, runs).where(runs.c.run_id == _OF_RUN))
_INPUTS = Query(RunInputsRow, select_row(RunInputsRow, runs).where(runs.c.run_id == _OF_RUN))
_STEP = Query(
    PreviewedStepRow,
    select_row(PreviewedStepRow, steps).where(steps.c.run_id == _OF_RUN, steps.c.step == bindparam("of_step")),
)


def run(tx: Tx, run_id: str) -> PreviewedRunRow:
    """Returns a run that exists."""
    return tx.one(_RUN, of_run_id=run_id)


def inputs(tx: Tx, run_id: str) -> RunInputsRow:
    """Returns the inputs of a run that exists."""
    return tx.one(_INPUTS, of_run_id=run_id)


def step(tx: Tx, run_id: str, handle: str) -> PreviewedStepRow | None:
    """Returns a step of a run, or None."""
    return tx.first(_STEP, of_run_id=run_id, of_step=handle)
