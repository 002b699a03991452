"""What the log says of work that is repeated."""

import logging

import pytest

from telemetry.outages import RepeatedWork


@pytest.fixture
def work() -> RepeatedWork:
    return RepeatedWork(logging.getLogger("telemetry.repeated"), "It fails", "It goes on")


def test_ways_to_fail_that_alternate_are_logged_once_an_outage(
    work: RepeatedWork, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        work.failed(ValueError("one"))
        work.failed(TimeoutError("two"))
    work.succeeded()
    work.failed(ValueError("one"))
    assert caplog.messages == ["It fails: one", "It fails: two", "It goes on", "It fails: one"]


def test_texts_that_differ_each_time_are_not_logged_for_ever(
    work: RepeatedWork, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(100):
        work.failed(ValueError(number))
    assert len(caplog.messages) == 10
