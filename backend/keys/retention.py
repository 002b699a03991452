"""How long usage is kept (contract 22)."""

from typing import Final

from backend.clock import DAY_MS
from backend.keys import usage_hours_sql, usage_sql
from backend.retention import RowRetention

RULES: Final = (
    RowRetention("usage_records", 90 * DAY_MS, usage_sql.purge_records),
    # A row may hold thousands of records.
    RowRetention("usage_batches", 90 * DAY_MS, usage_sql.purge_batches, batch=100),
    RowRetention("usage_hours", 400 * DAY_MS, usage_hours_sql.purge_hours),
)
