"""Metrics of the parts of one deployment: each of its own work, and all of the pending work."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.deployment import Deployment
from tests.support.poll import until
from tests.support.postgresql import Postgresql
from tests.support.scrape import scrape


@pytest.fixture
def deployment(tmp_path: Path, postgresql_server: Postgresql) -> Iterator[Deployment]:
    with postgresql_server.database() as database:
        deployment = Deployment(tmp_path, database, METRICS_LISTEN="127.0.0.1:0", RUNTIME_STEP_SLOTS="3")
        yield deployment
        deployment.stop()


def test_metrics_of_a_run_are_reported_by_the_process_that_did_the_work(deployment: Deployment) -> None:
    backend, worker = deployment.backend(), deployment.worker()
    edge, admin = deployment.edge(backend), deployment.admin(backend)
    caller = deployment.caller(edge, admin)
    flows = admin.apply_test_workflows()

    def at_backend(name: str, **labels: str) -> float:
        return scrape(backend.ready["metrics"]).value(name, **labels)

    def at_worker(name: str, **labels: str) -> float:
        return scrape(worker.ready["metrics"]).value(name, **labels)

    assert caller.finished(flows["Echo"])["status"] == "completed"
    until(lambda: at_worker("runs_ended_total") == 1, "the end to be counted")
    assert (at_backend("runs_started_total"), at_worker("runs_started_total")) == (1, 0)
    assert (at_backend("runs_ended_total"), at_worker("runs_ended_total", status="completed")) == (0, 1)
    assert (at_backend("step_seconds_count"), at_worker("step_seconds_count")) == (0, 1)
    assert (at_backend("step_slots"), at_worker("step_slots")) == (0, 3)
    for at in (at_backend, at_worker):
        assert (at("workers"), at("workers_step_slots"), at("database_up")) == (1, 3, 1)
        assert at("database_connections_limit") == 16
        assert at("database_connections", state="idle") > 0
        assert at("database_connection_wait_seconds_count") > 0
    until(lambda: at_worker("lease_renewals_total", outcome="renewed") > 0, "a renewal")
    # No worker executes this one, because the only one has ended.
    worker.signal(signal.SIGKILL)
    until(lambda: at_backend("workers") == 0, "the end of the lease")
    caller.started(flows["Echo"])
    assert at_backend("segments_queued") == 1
    until(lambda: at_backend("oldest_queued_segment_seconds") > 0, "its wait")


def test_other_metrics_are_reported_while_the_database_is_away(
    deployment: Deployment, postgresql_server: Postgresql
) -> None:
    backend = deployment.backend()
    url = backend.ready["metrics"]
    assert scrape(url).value("database_up") == 1
    with postgresql_server.away(deployment.database):
        until(lambda: scrape(url).value("database_up") == 0, "the database to be missed")
        seen = scrape(url)
        assert seen.value("build_info", part="backend") == 1
        assert not [name for name, _ in seen.values if name == "workflow_api_runs"]
        until(lambda: scrape(url).value("database_errors_total", kind="unreachable") > 0, "the error")
    until(lambda: scrape(url).value("database_up") == 1, "the database")
