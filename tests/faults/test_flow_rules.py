"""Runs whose flows a fault cut short violate no rule."""

import pytest

from tests.faults import flow_rules
from tests.faults.flow_histories import BEGAN, CALLS, ENDED, EXPIRES, FINISHED, LOST, LOST_FOR_GOOD, add_flows
from tests.faults.journal import FaultWindow, Record
from tests.faults.state import State


@pytest.fixture
def state() -> State:
    state = State(quota={"ak_1": 0}, told_listed={"ak_1": []})
    add_flows({}, state)
    # Its `always` did not run.
    state.flows.steps[ENDED, "clean"] = state.flows.steps[ENDED, "clean"]._replace(status="cancelled", attempt=0)
    return state


def missed(state: State, record: Record | None = None) -> list[str]:
    return list(flow_rules.missed_last_steps(record or Record([], []), state))


@pytest.mark.parametrize("code", ["orphaned", "launch_failed"])
def test_no_last_step_runs_where_nobody_executes_the_run(state: State, code: str) -> None:
    assert len(missed(state)) == 1
    state.runs[ENDED] = state.runs[ENDED]._replace(error_code=code)
    assert missed(state) == []


def test_no_last_step_runs_where_no_step_began(state: State) -> None:
    for of_step, row in state.flows.steps.items():
        if of_step[0] == ENDED:
            state.flows.steps[of_step] = row._replace(status="cancelled", attempt=0)
    assert missed(state) == []


@pytest.mark.parametrize(("ended", "excused"), [(BEGAN - 60_000, False), (BEGAN, True), (FINISHED + 60_000, False)])
def test_last_steps_are_missed_only_around_the_end_of_a_process(state: State, ended: int, excused: bool) -> None:
    record = Record([], [], {"worker 1": [(0.0, ended / 1000)], "edge 0": [(0.0, BEGAN / 1000)]})
    assert len(missed(state, record)) == (not excused)
    record.fault_windows.append(FaultWindow(1, "step clock of worker", 0.0, 1.0))
    assert missed(state, record) == []


def test_flows_of_erased_runs_violate_no_rule(state: State) -> None:
    for run_id, row in state.runs.items():
        state.runs[run_id] = row._replace(purged_at=FINISHED, result=None)
    state.flows.steps.clear()
    state.flows.items.clear()
    state.flows.items_ended.clear()
    state.flows.children.clear()
    state.approvals.clear()
    record = Record([], [])
    for rule in (
        flow_rules.stray_children,
        flow_rules.miscounted_items,
        flow_rules.missed_last_steps,
        flow_rules.doubly_ended_approvals,
        flow_rules.broken_links,
        flow_rules.changed_values,
    ):
        assert list(rule(record, state)) == []


def test_children_and_resumed_runs_are_no_starts_of_callers(state: State) -> None:
    assert flow_rules.starts(state).keys() == {CALLS, ENDED, EXPIRES, LOST, LOST_FOR_GOOD}
