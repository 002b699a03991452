"""Runs that wait for workers longer than the launch time-out, which never began and so never fail."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tests.support.client import Caller
from tests.support.deployment import Deployment
from tests.support.part import Part
from tests.support.poll import until
from tests.support.postgresql import Postgresql


@contextmanager
def deployed(
    folder: Path, server: Postgresql, **settings: str
) -> Iterator[tuple[Deployment, Part, Caller, dict[str, str]]]:
    """Yields a deployment with one worker, that worker, a caller, and its workflows."""
    with server.database() as database:
        deployment = Deployment(folder, database, RUNTIME_DRAIN_SECONDS="1", **settings)
        try:
            backend = deployment.backend()
            worker = deployment.worker()
            admin = deployment.admin(backend)
            flows = admin.apply_test_workflows()
            caller = deployment.caller(deployment.edge(backend), admin, max_concurrent_runs=50)
            yield deployment, worker, caller, flows
        finally:
            deployment.stop()


def test_a_run_that_waits_behind_a_busy_worker_longer_than_the_launch_time_out_completes(
    tmp_path: Path, postgresql_server: Postgresql
) -> None:
    settings = {"RUNTIME_STEP_SLOTS": "1", "RUNTIME_LAUNCH_TIMEOUT_SECONDS": "3"}
    with deployed(tmp_path, postgresql_server, **settings) as (_, _, caller, flows):
        runs = [caller.started(flows["Sleep"], parameters={"seconds": 4}) for _ in range(3)]
        assert [caller.wait(run_id)["status"] for run_id in runs] == ["completed"] * 3


def test_a_restart_of_the_only_worker_fails_nothing_of_a_backlog_older_than_the_launch_time_out(
    tmp_path: Path, postgresql_server: Postgresql
) -> None:
    with deployed(tmp_path, postgresql_server, RUNTIME_STEP_SLOTS="1") as (deployment, worker, caller, flows):
        busy = caller.started(flows["Sleep"], parameters={"seconds": 3600})
        caller.wait_for_event(busy, "step.progress")
        backlog = [caller.started(flows["Echo"]) for _ in range(4)]
        with psycopg.connect(deployment.database) as connection:
            connection.execute("UPDATE segments SET created_at = created_at - 3600000 WHERE state = 'queued'")
        worker.stop()
        assert caller.wait(busy)["error"]["code"] == "orphaned"
        worker.start()
        assert [caller.wait(run_id)["status"] for run_id in backlog] == ["completed"] * 4


def test_runs_started_while_the_only_worker_is_frozen_past_its_lease_complete_once_it_goes_on(
    tmp_path: Path, postgresql_server: Postgresql
) -> None:
    with deployed(tmp_path, postgresql_server, RUNTIME_STEP_SLOTS="8") as (deployment, worker, caller, flows):
        assert caller.finished(flows["Echo"])["status"] == "completed"
        worker.signal(signal.SIGSTOP)
        try:
            runs = [caller.started(flows["Echo"]) for _ in range(12)]
            until(lambda: not _leases(deployment.database), "its lease to be removed", seconds=60)
        finally:
            worker.signal(signal.SIGCONT)
        assert [caller.wait(run_id)["status"] for run_id in runs] == ["completed"] * 12


def _leases(database: str) -> list[tuple[object, ...]]:
    with psycopg.connect(database) as connection:
        return connection.execute("SELECT owner FROM workers").fetchall()
