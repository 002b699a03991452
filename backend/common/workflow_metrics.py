"""Metrics that name workflows and keys, exposed where `metrics.keys_and_workflows` is set; see docs/metrics.md."""

from typing import Final

from telemetry import Family, NamedCounter, NamedGauge, NamedLongest

_RUN: Final = ("workflow_id", "workflow", "key_id")
_STEP: Final = ("workflow_id", "step")

RUNS: Final = NamedGauge("workflow_runs", "Runs in flight.", (*_RUN, "status"))

QUEUED: Final = NamedGauge("workflow_segments_queued", "Segments that no process executes yet.", _RUN)
OLDEST_QUEUED: Final = NamedLongest(
    "workflow_oldest_queued_segment_seconds", "How long the oldest queued segment has waited.", _RUN
)
START_WAIT: Final = NamedLongest(
    "key_start_wait_seconds", "How long a run started now will probably wait.", ("key_id",)
)

STARTED: Final = NamedCounter("workflow_runs_started_total", "Runs recorded.", _RUN)
_ENDED: Final = NamedCounter("workflow_runs_ended_total", "Runs closed.", (*_RUN, "status", "reason"))
_RUN_SECONDS: Final = NamedCounter("workflow_run_seconds_total", "Time of closed runs, from start to end.", _RUN)
_ATTEMPTS: Final = NamedCounter("workflow_step_attempts_total", "Attempts of steps.", (*_STEP, "outcome"))
_STEP_SECONDS: Final = NamedCounter("workflow_step_seconds_total", "Time of attempts of steps.", _STEP)


def count_end(workflow_id: str, workflow_name: str, key_id: str, status: str, reason: str, seconds: float) -> None:
    """Counts a closed run; `key_id` is empty where no key started it, `reason` is `none` unless it failed."""
    _ENDED.add(workflow_id, workflow_name, key_id, status, reason)
    _RUN_SECONDS.add_many(seconds, workflow_id, workflow_name, key_id)


def count_attempt(workflow_id: str, step: str, outcome: str, seconds: float) -> None:
    """Counts one attempt of a step."""
    _ATTEMPTS.add(workflow_id, step, outcome)
    _STEP_SECONDS.add_many(seconds, workflow_id, step)


def counted() -> list[Family]:
    """Returns the counts of this process."""
    return [metric.collect() for metric in (STARTED, _ENDED, _RUN_SECONDS, _ATTEMPTS, _STEP_SECONDS)]
