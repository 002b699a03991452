"""What the log says of work that is repeated."""

import logging

import pytest

from contract.refusals import NoAnswer, Refusal
from edge.outages import RepeatedCall

LOG = logging.getLogger("edge.repeated")


def test_a_failure_and_its_end_are_logged_once_each(caplog: pytest.LogCaptureFixture) -> None:
    work = RepeatedCall(LOG, "It fails", "It goes on")
    work.succeeded()
    for error in (*[Refusal("internal")] * 3, *[ValueError("one")] * 2):
        work.failed(error)
    work.succeeded()
    work.succeeded()
    work.failed(ValueError("one"))
    assert caplog.messages == [f"It fails: {Refusal('internal')}", "It fails: one", "It goes on", "It fails: one"]


def test_nothing_is_said_of_a_backend_that_does_not_answer(caplog: pytest.LogCaptureFixture) -> None:
    work = RepeatedCall(LOG, "It fails", "It goes on")
    work.failed(NoAnswer())
    work.succeeded()
    assert caplog.messages == []
