"""Work of a run that is retried while the object store, or the database, is away."""

import json
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import pytest

from backend.common.retry import Backoff
from backend.runtime.execution import retries
from backend.services.outputs.sql import outputs_of
from backend.storage.database import DatabaseUnavailableError, OutcomeUnknownError
from backend.storage.objects import FolderObjects
from tests.services.runtime.conftest import RuntimeWorld, agent_step, gate
from tests.support.poll import until

Work = Callable[..., Any]
Commit = Callable[[], Any]


class Away:
    """Makes methods of the store fail, `left` more times."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *methods: str) -> None:
        self.left = 0
        self.asked = 0
        for method in methods:
            monkeypatch.setattr(FolderObjects, method, self._refusing(method))

    def _refusing(self, method: str) -> Callable[..., Any]:
        whole = getattr(FolderObjects, method)

        def refuse(objects: FolderObjects, *arguments: Any) -> Any:
            self.asked += 1
            if self.left:
                self.left -= 1
                raise OSError("the store is away")
            return whole(objects, *arguments)

        return refuse


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Away:
    caplog.set_level(logging.CRITICAL)
    monkeypatch.setattr(retries, "RESOURCE", replace(retries.RESOURCE, backoff=Backoff(0.0, 0.0)))
    return Away(monkeypatch, "put_file", "put_bytes")


def test_outputs_of_a_step_are_stored_once_the_store_is_back(world: RuntimeWorld, away: Away) -> None:
    away.left = 5
    run_id = world.run("Waits", [agent_step("write", "writer")], workflow={"result": {"step": "write"}})
    row = world.until_ended(run_id)
    assert (row.status, row.outputs_count) == ("completed", 3)


@pytest.fixture
def lost(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Away:
    """Away from readers."""
    caplog.set_level(logging.CRITICAL)
    monkeypatch.setattr(retries, "RESOURCE", replace(retries.RESOURCE, backoff=Backoff(0.0, 0.0)))
    return Away(monkeypatch, "open_range")


def _approved(world: RuntimeWorld) -> str:
    steps = [agent_step("write", "writer"), gate("look", "write"), agent_step("read", "reader", "write", "look")]
    run_id = world.run("Approved", steps, workflow={"result": {"step": "read"}}, input_text="one two")
    world.until_status(run_id, "waiting_for_approval")
    world.decide(world.approvals(run_id)["look"], True)
    return run_id


def test_files_are_read_after_an_approval_when_the_store_is_back(world: RuntimeWorld, lost: Away) -> None:
    lost.left = 5
    row = world.until_ended(_approved(world))
    assert row.status == "completed"
    assert json.loads(row.result)["files"] == {"write/notes/a.txt": "one two", "write/table.csv": "a,b"}
    assert lost.left == 0


@pytest.fixture
def no_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "RESOURCE", replace(retries.RESOURCE, attempts=1))


@pytest.mark.usefixtures("no_retries")
def test_a_step_whose_files_cannot_be_stored_fails_and_leaves_none(world: RuntimeWorld, away: Away) -> None:
    away.left = 1_000
    run_id = world.run("Loses", [agent_step("write", "writer")])
    row = world.until_ended(run_id)
    assert (row.status, row.error_code, row.outputs_count) == ("failed", "node_failed", 0)
    assert world.steps(run_id)["write"].error.message == "what the step left could not be stored"
    assert away.asked == 1


@pytest.mark.usefixtures("no_retries")
def test_files_that_cannot_be_read_after_an_approval_fail_the_step(world: RuntimeWorld, lost: Away) -> None:
    lost.left = 1_000
    run_id = _approved(world)
    assert world.until_ended(run_id).error_code == "node_failed"
    assert world.steps(run_id)["read"].error.message == "the files of the steps that it needs could not be read"


@pytest.mark.usefixtures("no_retries")
def test_a_result_that_cannot_be_stored_fails_the_run(world: RuntimeWorld, away: Away) -> None:
    away.left = 1_000
    run_id = world.run("Speaks", [agent_step("say", "large")], workflow={"result": {"step": "say"}})
    row = world.until_ended(run_id)
    assert (row.status, row.error_code) == ("failed", "invariant_blocked")
    assert row.error_message == "The result could not be stored."


@pytest.mark.parametrize("agent", ["writer", "large"])
def test_a_cancel_ends_the_wait_for_the_store(
    world: RuntimeWorld, away: Away, agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = replace(retries.RESOURCE, backoff=Backoff(3600.0, 3600.0), seconds=3600.0)
    monkeypatch.setattr(retries, "RESOURCE", policy)
    away.left = 1_000
    run_id = world.run("Waits", [agent_step("one", agent)], workflow={"result": {"step": "one"}})
    until(lambda: away.asked, "the first try")
    world.cancel(run_id)
    assert world.until_ended(run_id).status == "cancelled"


def _commit_by(
    commits: Callable[[Work, str, Commit], Any], world: RuntimeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Makes all changes by a function that gets each with its lock key, and what commits it and returns its result."""
    database = world.services.database
    write, write_soon = database.write, database.write_soon

    def made(work: Work, *, lock_key: str | None = None, claim: str | None = None) -> Any:
        return commits(work, lock_key or "", lambda: write(work, lock_key=lock_key, claim=claim))

    def made_soon(work: Work, *, lock_key: str | None = None, claim: str | None = None) -> "Future[Any]":
        done: Future[Any] = Future()
        try:
            commit = lambda: write_soon(work, lock_key=lock_key, claim=claim).result()  # noqa: E731 - as above
            done.set_result(commits(work, lock_key or "", commit))
        except DatabaseUnavailableError as error:
            done.set_exception(error)
        return done

    # The embedded database makes the one by the other.
    name, by = ("write", made) if database.remote else ("write_soon", made_soon)
    monkeypatch.setattr(database, name, by)


@pytest.fixture
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)


@pytest.mark.usefixtures("quiet")
def test_a_run_survives_a_short_outage_of_the_database(world: RuntimeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "DATABASE", replace(retries.DATABASE, backoff=Backoff(0.0, 0.0)))
    left = [3]

    def away(_: Work, lock_key: str, commit: Commit) -> Any:
        if lock_key.startswith("run ") and left and world.event_types(run_id):
            left.pop()
            raise DatabaseUnavailableError
        return commit()

    run_id = world.run("Waits", [agent_step("say", "waiter"), agent_step("write", "writer", "say")])
    world.until_event(run_id, "step.progress")
    _commit_by(away, world, monkeypatch)
    row = world.until_ended(run_id)
    assert (row.status, row.outputs_count, left) == ("completed", 2, [])


@pytest.mark.usefixtures("quiet")
def test_a_step_that_reports_progress_survives_a_short_outage_of_the_database(
    world: RuntimeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "DATABASE", replace(retries.DATABASE, backoff=Backoff(0.0, 0.0)))
    left = [5]

    def away(work: Work, _: str, commit: Commit) -> Any:
        if left[0] and "_append" in work.__qualname__:
            left[0] -= 1
            raise DatabaseUnavailableError
        return commit()

    _commit_by(away, world, monkeypatch)
    run_id = world.run("Tells", [agent_step("say", "chatty")])
    assert world.until_ended(run_id).status == "completed"
    assert (world.event_types(run_id).count("step.progress"), left) == (20, [0])


@pytest.mark.usefixtures("quiet")
def test_objects_named_by_a_commit_of_unknown_outcome_stay_stored(
    world: RuntimeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = world.services.database
    unknown, again = threading.Event(), threading.Event()

    def outcome_unknown(_: Work, lock_key: str, commit: Commit) -> Any:
        outcome = commit()
        if lock_key.startswith("run ") and world.count("outputs") and not again.is_set():
            unknown.set()
            raise OutcomeUnknownError
        return outcome

    _commit_by(outcome_unknown, world, monkeypatch)
    run_id = world.run("Asks", [agent_step("write", "writer")])
    named = until(lambda: database.read(lambda tx: outputs_of(tx, run_id)), "the outputs")
    until(unknown.is_set, "a commit of unknown outcome")
    again.set()
    world.until_ended(run_id)
    for output in named:
        assert sum(map(len, world.objects.open_range(output.object_key, 0, output.size_bytes))) == output.size_bytes


def _claims_failing(world: RuntimeWorld, monkeypatch: pytest.MonkeyPatch, fail: Callable[[Commit], Any]) -> None:
    """Has what takes a queued segment committed by `fail`."""

    def commits(work: Work, _: str, commit: Commit) -> Any:
        return fail(commit) if work.__qualname__.startswith("_Claim.") else commit()

    _commit_by(commits, world, monkeypatch)


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("attempts", [None, 1])
def test_a_claim_that_fails_while_the_database_is_away_is_made_again(
    world: RuntimeWorld, monkeypatch: pytest.MonkeyPatch, attempts: int | None
) -> None:
    monkeypatch.setattr(retries, "DATABASE", replace(retries.DATABASE, backoff=Backoff(0.0, 0.0), attempts=attempts))
    left = [3]

    def away(commit: Commit) -> Any:
        if left[0]:
            left[0] -= 1
            raise DatabaseUnavailableError
        return commit()

    run_id = world.run("Waits", [gate("look"), agent_step("say", "echo", "look")])
    world.until_status(run_id, "waiting_for_approval")
    _claims_failing(world, monkeypatch, away)
    world.decide(world.approvals(run_id)["look"], True)
    assert (world.until_ended(run_id).status, left) == ("completed", [0])


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("holds", [True, False])
def test_a_claim_of_unknown_outcome_orphans_no_run(
    world: RuntimeWorld, monkeypatch: pytest.MonkeyPatch, holds: bool
) -> None:
    left = [2]

    def unknown(commit: Commit) -> Any:
        if not left[0]:
            return commit()
        left[0] -= 1
        if holds:
            commit()
        raise OutcomeUnknownError

    run_id = world.run("Waits", [gate("look"), agent_step("say", "echo", "look")])
    world.until_status(run_id, "waiting_for_approval")
    _claims_failing(world, monkeypatch, unknown)
    world.decide(world.approvals(run_id)["look"], True)
    assert (world.until_ended(run_id).status, left) == ("completed", [0])
    assert world.event_types(run_id).count("segment.started") == 1
