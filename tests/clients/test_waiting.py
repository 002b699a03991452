"""Waiting for runs: held by the service where it can, and polled slowly where it cannot."""

import asyncio
import itertools

import pytest

from workflow_api_client import RunFailedError, RunNotFinishedError, TimedOutError, errors
from workflow_api_client.testing import FakeApi, FakeRequest, approval, complete, fail, progress

LONG = [complete({"pages": 3}, after=100, summary="# Three pages")]


def polls_of(api: FakeApi) -> list[FakeRequest]:
    return [each for each in api.requests if each.method == "GET" and each.path.startswith("/runs/")]


def test_a_wait_ends_with_the_run_and_gives_its_result(either_api: FakeApi) -> None:
    either_api.workflow("Digest", script=LONG)
    run = either_api.client().runs.start("Digest", parameters={"file": "a.pdf"}, labels={"team": "blue"})
    with pytest.raises(RunNotFinishedError):
        _ = run.result
    assert run.wait(timeout=200) is run
    assert (run.status, run.result, run.summary) == ("completed", {"pages": 3}, "# Three pages")
    assert either_api.runs[run.id].given == {"parameters": {"file": "a.pdf"}, "labels": {"team": "blue"}}
    assert 100 <= either_api.clock.now() <= 105


def test_a_service_that_holds_answers_is_asked_once_in_thirty_seconds(api: FakeApi) -> None:
    api.workflow("Digest", script=LONG)
    api.client().runs.start("Digest").wait()
    assert [each.query.get("wait_seconds") for each in polls_of(api)] == [None, "30", "30", "30", "30"]
    assert api.clock.now() == 100


def test_a_service_that_holds_nothing_is_asked_at_most_once_in_five_seconds() -> None:
    api = FakeApi(waits=False)
    api.workflow("Digest", script=[progress("a", after=7), *LONG])
    api.client().runs.start("Digest").wait()
    times = [each.at for each in polls_of(api)]
    # The first look and the question whether the service can hold come at once.
    assert times[:2] == [0, 0]
    assert min(later - earlier for earlier, later in itertools.pairwise(times[1:])) >= 5
    assert len(times) == 24


def test_an_unchanged_run_is_not_sent_again(api: FakeApi) -> None:
    api.workflow("Digest", script=LONG)
    api.client().runs.start("Digest").wait()
    assert all("if-none-match" in each.headers for each in polls_of(api)[1:])


@pytest.mark.parametrize("seconds", [0, 0.3, 12.5, 31])
def test_a_time_out_is_exact_and_leaves_the_run_alone(either_api: FakeApi, seconds: float) -> None:
    either_api.workflow("Digest", script=LONG)
    run = either_api.client().runs.start("Digest")
    # The fake service holds whole seconds; a real answer is cut off at the time given.
    with pytest.raises(TimedOutError, match=f"{run.id} was not done within {seconds:g} s"):
        run.wait(timeout=seconds)
    assert seconds <= either_api.clock.now() < seconds + 1
    assert run.wait().status == "completed"


def test_a_refusal_for_now_does_not_outlast_the_time_out(api: FakeApi) -> None:
    api.workflow("Digest", script=LONG)
    run = api.client().runs.start("Digest")
    api.refuse("rate_limited", retry_after=40)
    with pytest.raises(TimedOutError) as ended:
        run.wait(timeout=20)
    assert isinstance(ended.value.__cause__, errors.RateLimitedError)
    assert api.clock.now() == 20


def test_a_wait_may_end_at_an_approval(either_api: FakeApi) -> None:
    either_api.workflow("Digest", script=[approval("Plausible?", decided_after=1000), complete()])
    run = either_api.client().runs.start("Digest").wait(or_approval=True)
    assert run.status == "waiting_for_approval"
    assert [each.title for each in run.approvals()] == ["Plausible?"]
    # It waits already, which must not be waited for again.
    begun = either_api.clock.now()
    assert run.wait(or_approval=True).status == "waiting_for_approval"
    assert either_api.clock.now() == begun
    assert run.wait().status == "completed"


def test_a_failed_or_cancelled_run_has_no_result(api: FakeApi) -> None:
    api.workflow("Digest", script=[fail("the sky fell")])
    run = api.client().runs.start("Digest").wait()
    assert run.is_finished
    with pytest.raises(RunFailedError, match="node_failed: the sky fell"):
        _ = run.result
    api.workflow("Long", script=LONG)
    run = api.client().runs.start("Long")
    run.cancel()
    with pytest.raises(RunFailedError, match="cancelled"):
        _ = run.refresh().result


def test_an_outage_within_a_wait_is_waited_out(either_api: FakeApi) -> None:
    either_api.workflow("Digest", script=LONG)
    run = either_api.client().runs.start("Digest")
    either_api.break_connection(times=2)
    either_api.refuse("deployment_updating", retry_after=30)
    assert run.wait().status == "completed"


def test_a_start_that_waits_returns_the_ended_run(either_api: FakeApi) -> None:
    either_api.workflow("Digest", script=LONG)
    assert either_api.client().runs.start("Digest", wait=True).result == {"pages": 3}
    either_api.workflow("Broken", script=[fail("no")])

    async def work() -> str:
        async with either_api.async_client() as client:
            return (await client.runs.start("Broken", wait=True, timeout=90)).status

    assert asyncio.run(work()) == "failed"


def test_the_time_of_a_start_that_waits_bounds_both_and_the_error_names_the_run(either_api: FakeApi) -> None:
    either_api.workflow("Digest", script=LONG)
    either_api.refuse("rate_limited", retry_after=20)
    with pytest.raises(TimedOutError, match="within 60 s") as late:
        either_api.client().runs.start("Digest", wait=True, timeout=60)
    assert either_api.clock.now() == pytest.approx(60, abs=1)
    [run_id] = either_api.runs
    assert late.value.run_id == run_id
    either_api.refuse("rate_limited", retry_after=20)
    with pytest.raises(TimedOutError) as unbegun:
        either_api.client().runs.start("Digest", wait=True, timeout=10)
    assert unbegun.value.run_id is None
