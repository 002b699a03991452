"""A world with the service of schedules, and runners as several backends have them."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from backend.services.dependencies import Services
from backend.services.runs.start.service import RunStarter
from backend.services.schedules.runner import ScheduleRunner
from backend.services.schedules.servicer import SchedulesServicer
from tests.services.calls import Caller
from tests.services.conftest import TestClock
from tests.services.webhooks.hooked import WebhookWorld
from tests.support.webhook_receiver import Receiver, receiving
from workflow_api.v1 import audit_pb2, runs_pb2, schedules_pb2

STEPS = "steps: [{step: first, agent: worker, environment: standard}]"


def utc(text: str) -> int:
    """A UTC time, written as `2026-09-24 02:00`, in milliseconds."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


class ScheduleWorld(WebhookWorld):
    """`schedules` calls the service; `round` is one round of one backend."""

    def __init__(self, services: Services, clock: TestClock, folder: Path) -> None:
        super().__init__(services, clock, folder)
        self.starter = RunStarter(services, self.runtime)
        servicer = SchedulesServicer(services, self.starter)
        self.schedules = Caller(servicer, schedules_pb2.DESCRIPTOR.services_by_name["SchedulesService"])
        self.runner = self.new_runner()

    def new_runner(self) -> ScheduleRunner:
        """A runner as another backend has it."""
        return ScheduleRunner(self.services, RunStarter(self.services, self.runtime))

    def at(self, time: int) -> None:
        """Sets the clock, forward or back."""
        self.clock.advance(seconds=(time - self.clock()) / 1000)

    def round(self, time: int | None = None) -> None:
        if time is not None:
            self.at(time)
        self.runner.round()

    def define(self, *schedules: str, workflow: str = "Timed", status: str = "active", steps: str = STEPS) -> str:
        """Applies a workflow with schedules, each in YAML's flow style."""
        text = f"""
kind: Workflow
name: {workflow}
status: {status}
parameters: [{{name: region, type: string, enum: [EU, US], default: EU}}]
{steps}
schedules: [{", ".join(schedules)}]
"""
        applied = self.apply(text)
        self.workflows |= applied
        return applied[workflow]

    def listed(self, **fields: Any) -> list[schedules_pb2.Schedule]:
        return list(self.schedules("ListSchedules", schedules_pb2.ListSchedulesRequest(**fields)).items)

    def schedule(self, name: str = "nightly") -> schedules_pb2.Schedule:
        (found,) = (each for each in self.listed() if each.name == name)
        return found

    def last(self, name: str = "nightly") -> tuple[str, str]:
        """The last outcome and its reason."""
        last = self.schedule(name).last
        return schedules_pb2.ScheduleOutcome.Name(last.outcome).removeprefix("SCHEDULE_OUTCOME_").lower(), last.reason

    def pause(self, name: str = "nightly", workflow: str = "Timed") -> schedules_pb2.Schedule:
        request = schedules_pb2.PauseScheduleRequest(workflow=workflow, name=name)
        paused: schedules_pb2.Schedule = self.schedules("PauseSchedule", request)
        return paused

    def resume(self, name: str = "nightly", workflow: str = "Timed") -> schedules_pb2.Schedule:
        request = schedules_pb2.ResumeScheduleRequest(workflow=workflow, name=name)
        resumed: schedules_pb2.Schedule = self.schedules("ResumeSchedule", request)
        return resumed

    def trigger(self, key: str, name: str = "nightly") -> runs_pb2.StartRunResponse:
        request = schedules_pb2.TriggerScheduleRequest(workflow="Timed", name=name, idempotency_key=key)
        answer: runs_pb2.StartRunResponse = self.schedules("TriggerSchedule", request)
        return answer

    def started_at(self) -> list[int]:
        """The due times that have started a run, in order."""
        return sorted(row.due_at for row in self.dump("schedule_starts WHERE due_at IS NOT NULL"))

    def scheduled_runs(self) -> list[Any]:
        return self.dump("runs WHERE triggered_by = 'schedule' ORDER BY created_at, run_id")

    def end_runs(self) -> None:
        """Ends every run in flight."""
        for run in self.scheduled_runs():
            if run.finished_at is None:
                self.begin(run.run_id)
                assert self.close(run.run_id)

    def audited(self, action: str) -> list[audit_pb2.AuditRecord]:
        request = audit_pb2.ListAuditRecordsRequest(action=action)
        return list(reversed(self.deployment("ListAuditRecords", request).items))


@pytest.fixture
def world(services: Services, clock: TestClock, tmp_path: Path) -> Iterator[ScheduleWorld]:
    world = ScheduleWorld(services, clock, tmp_path)
    yield world
    world.stop()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver
