"""Backends that share one PostgreSQL, and decide on due times at once."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from backend.services.runs.start.service import RunStarter
from backend.services.schedules.runner import ScheduleRunner
from tests.services.runs.world import IdleRuntime
from tests.services.schedules.conftest import ScheduleWorld, utc
from tests.support.postgresql import Postgresql
from workflow_api_testing import test_backend

BEGIN = utc("2026-09-24 00:00")
QUARTER_MS = 15 * 60_000


@pytest.mark.parametrize("overlap", ["allow", "skip"])
def test_backends_with_connections_of_their_own_start_one_run_at_each_due_time(
    postgresql_server: Postgresql, tmp_path: Path, overlap: str
) -> None:
    with postgresql_server.database() as database, ExitStack() as stack:
        backends = [stack.enter_context(test_backend(database=database)) for _ in range(3)]
        all_services = [backend.composition.services for backend in backends]
        runners = [ScheduleRunner(services, RunStarter(services, IdleRuntime())) for services in all_services]
        world = ScheduleWorld(all_services[0], backends[0].clock, tmp_path)
        world.at(BEGIN + 60_000)
        world.define(f'{{name: nightly, cron: "*/15 * * * *", overlap: {overlap}}}')
        due_times = [BEGIN + number * QUARTER_MS for number in range(1, 7)]
        with ThreadPoolExecutor(len(runners)) as threads:
            for due in due_times:
                for backend in backends:
                    backend.clock.advance(seconds=(due - backend.clock()) / 1000)
                for done in [threads.submit(runner.round) for runner in runners]:
                    done.result()
                world.end_runs()
        assert world.started_at() == due_times
        assert [run.created_at for run in world.scheduled_runs()] == due_times
        assert world.audited("schedule.failed") == world.audited("schedule.skipped") == []
