"""How long the audit trail is kept (contract 22.6)."""

from typing import Final

from backend.audit import sql
from backend.clock import DAY_MS
from backend.retention import RowRetention

RULES: Final = (RowRetention("audit_records", 400 * DAY_MS, sql.purge),)
