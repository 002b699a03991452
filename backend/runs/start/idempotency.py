"""What an idempotency key is bound to: a body, and the run that it started (contract 12.7 to 12.17)."""

from typing import Final

from backend.clock import DAY_MS, is_recent
from backend.errors import ApiError
from backend.runs.start.parsed_start import ParsedStart
from backend.runs.start.sql import FactsRow, RecordRow
from workflow_api.v1 import errors_pb2

RECORD_LIFE_MS: Final = DAY_MS
"""How long an idempotency key stays bound (contract 12.13)."""


def is_bound(record: FactsRow | RecordRow, at: int) -> bool:
    """Returns whether an idempotency record still holds: for 24 h from its first use."""
    return record.first_used_at is not None and is_recent(record.first_used_at, at, RECORD_LIFE_MS)


def conflict(record: FactsRow | RecordRow, start: ParsedStart) -> ApiError | None:
    """Returns the refusal of a start whose idempotency key is bound to another body, or None (contract 12.9)."""
    if is_bound(record, start.at) and record.fingerprint != start.fingerprint:
        return ApiError(errors_pb2.ERROR_REASON_IDEMPOTENCY_CONFLICT)
    return None


def replayed_run(record: FactsRow | RecordRow, start: ParsedStart) -> str | None:
    """Returns the run that the same start made before, or None."""
    return record.run_id if is_bound(record, start.at) else None
