"""Outcomes with which the runtime itself ends runs: cancelled, orphaned, time limit, licence (contract 13.13)."""

from dataclasses import dataclass
from typing import Final, Protocol

from backend.common.clock import HOUR_MS
from backend.common.states import RunStatus
from backend.services.runs.lifecycle import SegmentLease, close_run
from backend.storage.database import Tx
from contract import failure_codes


@dataclass(frozen=True, slots=True)
class RunOutcome:
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


CANCEL: Final = RunOutcome(RunStatus.CANCELLED)
ORPHANED: Final = RunOutcome(
    RunStatus.FAILED, failure_codes.ORPHANED, "The runtime was interrupted while the run was going."
)
LAUNCH_FAILED: Final = RunOutcome(
    RunStatus.FAILED, failure_codes.LAUNCH_FAILED, "The run was not taken up by the runtime in time."
)
LICENSE_UNAVAILABLE: Final = RunOutcome(
    RunStatus.FAILED,
    failure_codes.LICENSE_UNAVAILABLE,
    "The runtime refused the launch because the deployment's licence is on hold.",
)


def time_limit(max_run_hours: float) -> RunOutcome:
    """Returns the outcome of a run that reached its time limit, which counts the wait for approvals."""
    message = f"The run reached its time limit of {max_run_hours:g} hours."
    return RunOutcome(RunStatus.FAILED, failure_codes.WALL_CLOCK_LIMIT_REACHED, message)


class StartedRun(Protocol):
    """Protocol of rows with the columns of a run that decide whether it must end."""

    @property
    def started_at(self) -> int | None:
        """Begin of the first segment, in milliseconds."""

    @property
    def max_run_hours(self) -> float | None:
        """Time limit of the run; None for no limit."""

    @property
    def cancel_requested_at(self) -> int | None:
        """Time of the first request to cancel the run, or None."""


def reason_to_stop(run: StartedRun, now: int) -> RunOutcome | None:
    """Returns the outcome with which a started run must end now, or None if it may go on."""
    if run.cancel_requested_at is not None:
        return CANCEL
    if run.max_run_hours is None or run.started_at is None or now < run.started_at + run.max_run_hours * HOUR_MS:
        return None
    return time_limit(run.max_run_hours)
