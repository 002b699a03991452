"""What is kept for how long, as the rules of the upkeep say."""

from backend.clock import DAY_MS
from backend.runtime.scheduling.upkeep import Upkeep
from contract.times import to_duration, to_timestamp
from workflow_api.v1 import deployment_health_pb2 as pb


def retention_message(upkeep: Upkeep, days: int, oldest: int | None) -> pb.Retention:
    """Returns the schedules; `days` are those of the record, and the `oldest` run with data finished at that time."""
    record_ms = days * DAY_MS
    return pb.Retention(
        schedules=[
            pb.RetentionSchedule(
                name=rule.name,
                kept=to_duration(record_ms if rule.kept_ms is None else rule.kept_ms),
                by_record=rule.kept_ms is None,
            )
            for rule in upkeep.rules
        ],
        next_round_at=to_timestamp(upkeep.next_round_at) if upkeep.next_round_at else None,
        next_run_at=None if oldest is None else to_timestamp(oldest + record_ms),
    )
