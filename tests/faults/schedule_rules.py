"""Rules of schedules: due times, planned starts and runs that a person triggered."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Final

from tests.faults.journal import Record
from tests.faults.schedule_state import ScheduleRow
from tests.faults.state import RunRow, State

SCHEDULE: Final = "schedule"
"""What triggers the runs of schedules and planned starts."""
MINUTE: Final = 60_000
# Whoever pauses a schedule may be before the round that decides on a due time.
_ROUND: Final = 5_000
_STARTED: Final = "started"


def scheduled_runs(state: State) -> dict[str, RunRow]:
    """The runs that schedules, planned starts and people who triggered a schedule have started."""
    return {run_id: row for run_id, row in state.runs.items() if row.triggered_by == SCHEDULE}


def doubly_started(_: Record, state: State) -> Iterator[str]:
    """A due time starts one run at most, and each run of a schedule has its record."""
    starts = state.schedules.starts
    for due, count in Counter((start.schedule, start.due_at) for start in starts if start.due_at is not None).items():
        if count > 1:
            yield f"{due} started {count} runs"
    recorded = {start.run_id for start in starts}
    for run_id in recorded ^ scheduled_runs(state).keys():
        yield f"run {run_id} and the records of schedules differ: {state.runs.get(run_id)}"


def due_times(state: State) -> dict[str, range]:
    """The due times of each schedule, by its name: every minute from its beginning until it was paused."""
    found = {}
    for row in state.schedules.rows.values():
        if row.name is not None:
            end = state.schedules.paused_at.get(row.name, row.created_at) - _ROUND
            found[row.name] = range((row.created_at // MINUTE + 1) * MINUTE, end + 1, MINUTE)
    return found


def undecided_times(record: Record, state: State) -> Iterator[str]:
    """Each due time starts a run, is skipped or fails: once, unless a clock that was put back shows it twice."""
    for row in state.schedules.rows.values():
        if row.name is not None and (row.next_at, row.waiting_at) != (None, None):
            yield f"{row} is not paused"
    for name, times in due_times(state).items():
        started = Counter(start.due_at for start in state.schedules.starts if start.schedule == name)
        failed = Counter(state.schedules.failed.get(name, []))
        for due_at in times:
            skipped = [each for each in state.schedules.skipped.get(name, []) if each.first <= due_at <= each.last]
            outcomes = started[due_at] + failed[due_at] + len(skipped)
            if outcomes == 0 or (outcomes > 1 and not clocks_stepped(record)):
                yield f"{name} at {due_at} started {started[due_at]}, failed {failed[due_at]}, skipped {skipped}"
        for each in state.schedules.skipped.get(name, []):
            if each.number != (each.last - each.first) // MINUTE + 1:
                yield f"{name} counts {each}"


def clocks_stepped(record: Record) -> bool:
    """Whether a process that decides on due times had a wrong clock."""
    return any(window.kind in {"step clock of backend", "step clock of service"} for window in record.fault_windows)


def lost_plans(record: Record, state: State) -> Iterator[str]:
    """A planned start that was acknowledged starts one run, not before its time, or none once it was cancelled."""
    runs = _by_reference(state)
    cancelled = {call.about["schedule"] for call in record.acknowledged("cancel_planned")}
    maybe = {call.about["schedule"] for call in record.of("cancel_planned")}
    for call in record.of("plan_start"):
        started = runs[call.about["reference"]]
        if len(started) > 1:
            yield f"{call}: started {started}"
        if not call.acknowledged:
            continue
        schedule_id = call.said["schedule"]
        row = state.schedules.rows.get(schedule_id)
        starts = [(start.run_id, start.due_at) for start in state.schedules.starts if start.schedule == schedule_id]
        if schedule_id in cancelled:
            if started or starts or row is not None:
                yield f"{call}: is cancelled, and is {row} with {started}"
        elif row is None and schedule_id in maybe and not started:
            continue
        elif row is None or not _ran(row, started) or starts != [(row.last_run_id, call.about["at"])]:
            yield f"{call}: is {row} with {started} and {starts}"
        elif min(started.values()) < call.about["at"] and not clocks_stepped(record):
            yield f"{call}: started too early, {started}"


def _by_reference(state: State) -> defaultdict[str | None, dict[str, int]]:
    """The runs of schedules with their starts, in milliseconds, by their references."""
    found: defaultdict[str | None, dict[str, int]] = defaultdict(dict)
    for run_id, row in scheduled_runs(state).items():
        found[row.client_reference][run_id] = row.created_at
    return found


def _ran(row: ScheduleRow, started: Mapping[str, int]) -> bool:
    return (row.next_at, row.last_outcome) == (None, _STARTED) and set(started) == {row.last_run_id}


def lost_triggers(record: Record, state: State) -> Iterator[str]:
    """However often a schedule is triggered under a key, there is one run of it."""
    by_name: dict[str, set[str]] = defaultdict(set)
    recorded = {start.run_id: start for start in state.schedules.starts}
    for call in record.acknowledged("trigger_schedule"):
        by_name[call.about["name"]].add(call.said["run"])
        start = recorded.get(call.said["run"])
        if start is None or (start.schedule, start.due_at) != (call.about["schedule"], None):
            yield f"{call}: answered {call.said['run']}, which is {start}"
    for name, runs in by_name.items():
        if len(runs) > 1:
            yield f"{name} was answered with {sorted(runs)}"
    asked = {call.about["name"] for call in record.of("trigger_schedule")}
    triggered = sum(start.due_at is None for start in recorded.values())
    if triggered > len(asked):
        yield f"{triggered} runs were triggered by {len(asked)} keys"
