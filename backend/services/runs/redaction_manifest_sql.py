"""SQL that updates the redaction manifest of a run in progress: counts and statuses of stages."""

from typing import Final, NamedTuple

from sqlalchemy import BindParameter, bindparam, select, update

from backend.services.runs import redaction_manifest
from backend.storage.database import Tx
from backend.storage.statements import Command, ScalarQuery
from backend.storage.tables.runs import runs
from redaction.counts import Counts

INPUTS: Final = "inputs"
STEPS: Final = "steps"
OUTPUTS: Final = "outputs"


class StageCounts(NamedTuple):
    """The counts of one sweep, with its stage."""

    stage: str
    counts: Counts


_RUN: Final[BindParameter[str]] = bindparam("of_run_id")
_MANIFEST = ScalarQuery[str](select(runs.c.pii_redaction).where(runs.c.run_id == _RUN))
_SET_MANIFEST = Command(update(runs).where(runs.c.run_id == _RUN).values(pii_redaction=bindparam("manifest")))


def model_calls(tx: Tx, run_id: str) -> int:
    """Returns the number of model calls of the run so far."""
    return redaction_manifest.model_calls(_manifest(tx, run_id))


def add_counts(tx: Tx, run_id: str, found: StageCounts) -> None:
    """Adds the counts of a sweep to the manifest."""
    _set(tx, run_id, redaction_manifest.with_counts(_manifest(tx, run_id), found.stage, found.counts.as_dict()))


def set_status(tx: Tx, run_id: str, stage: str, status: str) -> None:
    """Writes the status of a stage."""
    _set(tx, run_id, redaction_manifest.with_status(_manifest(tx, run_id), stage, status))


def _manifest(tx: Tx, run_id: str) -> str:
    return tx.scalar_one(_MANIFEST, of_run_id=run_id)


def _set(tx: Tx, run_id: str, manifest: str) -> None:
    tx.announce(run_id)
    tx.enqueue(_SET_MANIFEST, of_run_id=run_id, manifest=manifest)
