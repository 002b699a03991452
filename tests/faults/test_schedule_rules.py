"""Schedules whose clocks were put back, and planned starts that nobody heard of, violate no rule."""

import pytest

from tests.faults import schedule_rules
from tests.faults.journal import Call, FaultWindow, Record
from tests.faults.schedule_histories import BEGAN, NAME, PLAN, add_schedules
from tests.faults.schedule_rules import MINUTE
from tests.faults.schedule_state import SkippedTimes
from tests.faults.state import State


@pytest.fixture
def state() -> State:
    state = State()
    add_schedules({}, state)
    return state


@pytest.mark.parametrize(("part", "excused"), [("backend", True), ("service", True), ("worker", False)])
def test_a_due_time_has_two_outcomes_only_by_a_clock_that_was_put_back(state: State, part: str, excused: bool) -> None:
    state.schedules.skipped[NAME].append(SkippedTimes(101 * MINUTE, 101 * MINUTE, 1))
    record = Record([], [FaultWindow(1, f"step clock of {part}", 0.0, 1.0)])
    assert len(list(schedule_rules.undecided_times(record, state))) == (not excused)


@pytest.mark.parametrize(("after", "held"), [(0, 0), (4_000, 0), (6_000, 1), (60_000, 1)])
def test_a_due_time_counts_unless_its_schedule_was_paused_within_seconds(state: State, after: int, held: int) -> None:
    state.schedules.paused_at[NAME] = 101 * MINUTE + after
    assert BEGAN < 101 * MINUTE
    assert len(schedule_rules.due_times(state)[NAME]) == held


@pytest.mark.parametrize("cancel_was_heard", [False, True])
def test_a_planned_start_may_be_gone_where_somebody_tried_to_cancel_it(state: State, cancel_was_heard: bool) -> None:
    run_id = state.schedules.rows.pop(PLAN).last_run_id
    assert run_id is not None
    del state.runs[run_id]
    state.schedules.starts = [start for start in state.schedules.starts if start.run_id != run_id]
    plan = Call(1, "plan_start", {"reference": "planned", "at": 1}, 0.0, 1.0, 200, None, {"schedule": PLAN})
    cancel = Call(2, "cancel_planned", {"schedule": PLAN}, 1.0, 2.0, 200 if cancel_was_heard else 0)
    assert len(list(schedule_rules.lost_plans(Record([plan], []), state))) == 1
    assert list(schedule_rules.lost_plans(Record([plan, cancel], []), state)) == []
