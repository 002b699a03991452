"""Planned starts of a service that is killed around their time."""

from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from google.protobuf.timestamp_pb2 import Timestamp

from tests.support.poll import until
from tests.support.postgresql import Postgresql
from tests.support.service import Service
from workflow_api.v1 import runs_pb2, schedules_pb2

MANIFEST = """
kind: Agent
name: quick
type: python
code: |
  def run(context):
      return context.input_text
---
kind: Workflow
name: Timed
status: active
steps: [{step: first, agent: quick}]
"""
PLANNED = 6


def _planned(service: Service, workflow: str, reference: str, at: datetime) -> None:
    start = runs_pb2.StartRunRequest(workflow_id=workflow, idempotency_key=reference, client_reference=reference)
    moment = Timestamp()
    moment.FromDatetime(at)
    service.admin.schedules.PlanStart(schedules_pb2.PlanStartRequest(start=start, at=moment))


def _has_come(moment: datetime) -> bool:
    return datetime.now(UTC) >= moment


def _killed_around_due_times(service: Service, kills: int) -> None:
    """Plans starts a second apart, kills the service again and again meanwhile, and expects one run of each."""
    service.start()
    try:
        workflow = service.admin.apply(MANIFEST)["Timed"]
        begin = datetime.now(UTC) + timedelta(seconds=2)
        for number in range(PLANNED):
            _planned(service, workflow, f"planned-{number}", begin + timedelta(seconds=number))
        for number in range(kills):
            due = begin + timedelta(seconds=number)
            until(partial(_has_come, due), "the due time")
            service.kill()
            service.start()

        def listed() -> list[schedules_pb2.Schedule]:
            return list(service.admin.schedules.ListSchedules(schedules_pb2.ListSchedulesRequest()).items)

        until(lambda: all(not each.next_times for each in listed()), "every planned start to be decided")
        runs = service.admin.runs.ListRuns(runs_pb2.ListRunsRequest(page_size=100)).items
        assert sorted(run.client_reference for run in runs) == [f"planned-{number}" for number in range(PLANNED)]
        assert {each.last.run_id for each in listed()} == {run.run_id for run in runs}
    finally:
        service.stop()


def test_planned_starts_start_once_although_the_service_is_killed_around_them(tmp_path: Path) -> None:
    _killed_around_due_times(Service(tmp_path), kills=4)


def test_planned_starts_on_postgresql_start_once_although_the_service_is_killed_around_them(
    tmp_path: Path, postgresql_server: Postgresql
) -> None:
    with postgresql_server.database() as database:
        _killed_around_due_times(Service(tmp_path, database=database), kills=3)
