"""Interruptions of runs: records which are to be resumed automatically, and why one is not.

A row is written in the transaction that closes a run as orphaned, and settled in the one that adds the run that
follows, so that a process that dies between the two loses nothing and starts nothing twice.
"""

from typing import Final

from backend.common import json_text
from backend.services.runs import interruptions_sql as sql
from backend.services.runs.interruptions_sql import DueRow
from backend.services.workflows.versions_sql import definition_text
from backend.storage.database import Tx

MOST_RESUMED: Final = 3
"""Most runs in a row that follow one another automatically."""

_RESUME: Final = "resume"
_CHAIN_ENDED: Final = "No run resumes it: as many runs in a row as are resumed, three, have been interrupted before it."
_REFUSED: Final = "It is not resumed automatically: {}"
_RETRY_MS: Final = 15_000
_CLAIM_MS: Final = 60_000
"""Longer than an attempt to resume takes; if its process dies, another one tries after that time."""


def record(tx: Tx, run_id: str, at: int) -> None:
    """Records that a run, just closed, lost its worker; a child is resumed with the run that started it."""
    run = sql.interrupted(tx, run_id)
    if run is None or run.parent_run_id is not None:
        return
    definition = definition_text(tx, run.workflow_id, run.version)
    if definition is None or json_text.parse(definition).get("on_interruption") != _RESUME:
        return
    ordinal = sql.ordinal_before(tx, run_id) + 1
    follows = ordinal <= MOST_RESUMED
    sql.add(tx, run_id, ordinal, at, at if follows else None)
    if not follows:
        _warn(tx, run_id, sql.warned(tx, run_id).warnings, _CHAIN_ENDED)


def claim(tx: Tx, run: DueRow, at: int) -> bool:
    """Reserves an interrupted run for one attempt to resume it; returns False if another process has reserved it."""
    return sql.claim(tx, run, at + _CLAIM_MS)


def follow(tx: Tx, run_id: str, new_run_id: str, at: int) -> bool:
    """Records the run that resumes an interrupted one automatically; returns False if another decision was first."""
    if not sql.settle(tx, run_id, new_run_id):
        return False
    sql.follow_schedule(tx, run_id, new_run_id, at)
    return True


def refuse(tx: Tx, run_id: str, why: str, at: int) -> bool:
    """Records why no run follows an interrupted one as a warning of it, once its warnings are swept.

    Returns whether that is decided now: not before the sweep, nor if another decision was first.
    """
    run = sql.warned(tx, run_id)
    if run.redaction_state == "pending" and run.data_purged_at is None:
        # The sweep, which has read the warnings, would overwrite this one.
        sql.postpone(tx, run_id, at + _RETRY_MS)
        return False
    if not sql.settle(tx, run_id, None):
        return False
    if run.data_purged_at is None:
        _warn(tx, run_id, run.warnings, _REFUSED.format(why))
    return True


def retry(tx: Tx, run_id: str, at: int) -> None:
    """Has an interrupted run tried again a little later."""
    sql.postpone(tx, run_id, at + _RETRY_MS)


def _warn(tx: Tx, run_id: str, warnings: str, warning: str) -> None:
    sql.set_warnings(tx, run_id, json_text.write([*json_text.parse(warnings), warning]))
    tx.announce(run_id)
