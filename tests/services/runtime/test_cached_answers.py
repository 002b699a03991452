"""Cached answers are those that the database gives at every commit of runs that really run."""

import pytest

from tests.services.cached_answers import compared
from tests.services.runtime.conftest import RuntimeWorld, agent_step, gate


def test_a_cached_answer_is_that_of_the_database_after_every_commit_of_running_runs(
    world: RuntimeWorld, database_url: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if database_url is not None:
        # Nothing is cached where other processes commit as well.
        return
    runs: list[str] = []
    with compared(world, {world.key: runs}, monkeypatch) as answers:
        steps = [agent_step("talk", "chatty"), gate("review", "talk"), agent_step("after", "printer", "review")]
        runs.append(world.run("Gate", steps))
        runs.append(world.run("Parked", [gate("review")]))
        runs.append(world.run("Slept", [agent_step("sleep", "sleeper")]))
        runs.append(world.run("Failing", [agent_step("fail", "fail")]))
        world.until_event(runs[2], "step.progress")
        world.cancel(runs[2])
        world.until_status(runs[0], "waiting_for_approval")
        world.decide(world.approvals(runs[0])["review"], True)
        world.until_status(runs[1], "waiting_for_approval")
        world.decide(world.approvals(runs[1])["review"], False)
        for run_id in runs:
            world.until_ended(run_id)
    assert answers.wrong == []


def test_a_running_run_leaves_what_is_cached_of_other_keys(
    world: RuntimeWorld, database_url: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if database_url is not None:
        # Nothing is cached where other processes commit as well.
        return
    other = world.new_key()
    finished = world.run("Done", [agent_step("one", "echo")], key=other)
    world.until_ended(finished)
    with compared(world, {other: [finished]}, monkeypatch) as answers:
        answers.compare()
        run_id = world.started("Done")
        answers.dropped.clear()
        before = answers.times
        world.until_ended(run_id)
    assert answers.wrong == []
    assert answers.times > before
    assert not answers.dropped
