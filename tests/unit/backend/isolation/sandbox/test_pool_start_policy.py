"""When templates of steps are started again after failures and faults."""

from backend.isolation.sandbox.pool import (
    FAULT_WINDOW_SECONDS,
    FIRST_PAUSE_SECONDS,
    MOST_FAULTS,
    MOST_PAUSE_SECONDS,
    StartPolicy,
)


def test_the_pause_after_failures_doubles_up_to_a_bound_and_begins_anew_after_a_start() -> None:
    policy = StartPolicy()
    assert policy.may_start(0.0)
    pauses = [policy.failed(0.0) for _ in range(2_000)]
    assert pauses[:3] == [FIRST_PAUSE_SECONDS, 2 * FIRST_PAUSE_SECONDS, 4 * FIRST_PAUSE_SECONDS]
    assert set(pauses[20:]) == {MOST_PAUSE_SECONDS}
    assert not policy.may_start(MOST_PAUSE_SECONDS - 1)
    assert policy.may_start(MOST_PAUSE_SECONDS)
    assert not policy.ruled_out(0.0)
    policy.started()
    assert policy.failed(0.0) == FIRST_PAUSE_SECONDS


def test_faults_count_within_a_window_of_time() -> None:
    policy = StartPolicy()
    for number in range(10 * MOST_FAULTS):
        policy.add_fault(number * FAULT_WINDOW_SECONDS)
        assert policy.may_start(number * FAULT_WINDOW_SECONDS)
    last = 10 * MOST_FAULTS * FAULT_WINDOW_SECONDS
    for number in range(MOST_FAULTS):
        assert not policy.ruled_out(last + number)
        policy.add_fault(last + number)
    assert policy.ruled_out(last + MOST_FAULTS)
    assert not policy.may_start(last + MOST_FAULTS)
    assert policy.may_start(last + FAULT_WINDOW_SECONDS)


def test_no_template_is_started_after_a_refusal() -> None:
    policy = StartPolicy()
    policy.refuse()
    policy.started()
    assert policy.ruled_out(1e9)
    assert not policy.may_start(1e9)


def test_a_policy_is_blank_once_nothing_it_noted_counts_any_more() -> None:
    policy = StartPolicy()
    assert policy.blank(0.0)
    policy.failed(0.0)
    assert not policy.blank(1e9)
    policy.started()
    assert policy.blank(0.0)
    policy.add_fault(0.0)
    assert not policy.blank(FAULT_WINDOW_SECONDS - 1)
    assert policy.blank(FAULT_WINDOW_SECONDS)
    policy.refuse()
    assert not policy.blank(1e9)
