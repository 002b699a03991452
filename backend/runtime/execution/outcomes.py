"""Why a run ends other than by its own steps, worded for the person who reads it. (SPEC.md, Failure codes)."""

from dataclasses import dataclass
from typing import Final

from backend.clock import HOUR_MS
from backend.run_status import CANCELLED, FAILED
from backend.runs import failure_codes
from backend.runs.lifecycle import SegmentLease, close_run
from backend.runtime.execution.sql import ExecutedRunRow
from backend.runtime.scheduling.upkeep_sql import RunningSegmentRow
from backend.storage.database import Tx


@dataclass(frozen=True, slots=True)
class Outcome:
    """A final status, with failure code and message where the run failed."""

    status: str
    code: str | None = None
    message: str | None = None

    def close(self, tx: Tx, run_id: str, at: int, lease: SegmentLease | None = None) -> bool:
        """Closes the run, once; see `close_run`."""
        return close_run(
            tx,
            run_id,
            self.status,
            at,
            error_code=self.code,
            error_message=self.message,
            lease=lease,
        )


CANCEL: Final = Outcome(CANCELLED)
ORPHANED: Final = Outcome(FAILED, failure_codes.ORPHANED, "The runtime was interrupted while the run was going.")
LAUNCH_FAILED: Final = Outcome(FAILED, failure_codes.LAUNCH_FAILED, "The run was not taken up by the runtime in time.")
LICENSE_UNAVAILABLE: Final = Outcome(
    FAILED,
    failure_codes.LICENSE_UNAVAILABLE,
    "The runtime refused the launch because the deployment's licence is on hold.",
)


def time_limit(max_run_hours: float) -> Outcome:
    """A run that reached its time limit, approvals included."""
    message = f"The run reached its time limit of {max_run_hours:g} hours."
    return Outcome(FAILED, failure_codes.WALL_CLOCK_LIMIT_REACHED, message)


def reason_to_stop(run: ExecutedRunRow | RunningSegmentRow, now: int) -> Outcome | None:
    """Why a run that has begun should end now, by its row; None where nothing says so."""
    if run.cancel_requested_at is not None:
        return CANCEL
    if run.max_run_hours is None or run.started_at is None or now < run.started_at + run.max_run_hours * HOUR_MS:
        return None
    return time_limit(run.max_run_hours)
