"""Converts rows of schedules to protobuf messages."""

from itertools import islice
from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp

from backend.services.schedules.sql import ListedScheduleRow
from backend.services.workflows.cron import due_times
from backend.services.workflows.schedule_outcomes import Outcome, definition_of
from backend.storage.tables.schedules import ScheduleRow
from contract.times import to_timestamp
from workflow_api.v1 import schedules_pb2

NEXT_TIMES: Final = 5

_OUTCOMES: Final = {
    Outcome.STARTED: schedules_pb2.SCHEDULE_OUTCOME_STARTED,
    Outcome.SKIPPED: schedules_pb2.SCHEDULE_OUTCOME_SKIPPED,
    Outcome.QUEUED: schedules_pb2.SCHEDULE_OUTCOME_QUEUED,
    Outcome.FAILED: schedules_pb2.SCHEDULE_OUTCOME_FAILED,
}


def schedule_message(listed: ListedScheduleRow) -> schedules_pb2.Schedule:
    """Returns a schedule or planned start for people, without the inputs of a planned start."""
    row = listed.row
    definition = {} if row.name is None else definition_of(row)
    return schedules_pb2.Schedule(
        schedule_id=row.schedule_id,
        workflow_id=row.workflow_id,
        workflow_name=listed.workflow_name,
        name=row.name or "",
        cron=definition.get("cron", ""),
        timezone=definition.get("timezone", ""),
        overlap=definition.get("overlap", ""),
        catch_up=definition.get("catch_up", ""),
        paused=bool(row.paused),
        next_times=[to_timestamp(at) for at in _next_times(row)],
        waiting=_time(row.waiting_at),
        last=_decision(row),
        planned_by=row.created_by,
    )


def _next_times(row: ScheduleRow) -> list[int]:
    if row.next_at is None:
        return []
    if row.name is None:
        return [row.next_at]
    definition = definition_of(row)
    later = due_times(definition["cron"], definition["timezone"], row.next_at)
    return [row.next_at, *islice(later, NEXT_TIMES - 1)]


def _decision(row: ScheduleRow) -> schedules_pb2.ScheduleDecision | None:
    if row.last_outcome is None or row.last_at is None:
        return None
    return schedules_pb2.ScheduleDecision(
        outcome=_OUTCOMES[Outcome(row.last_outcome)],
        due_at=_time(row.last_due_at),
        decided_at=to_timestamp(row.last_at),
        run_id=row.last_run_id,
        reason=row.last_reason,
    )


def _time(milliseconds: int | None) -> Timestamp | None:
    return None if milliseconds is None else to_timestamp(milliseconds)
