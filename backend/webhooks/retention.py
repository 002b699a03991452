"""How long deliveries are kept (docs/webhooks.md)."""

from typing import Final

from backend.clock import DAY_MS
from backend.retention import RowRetention
from backend.webhooks import sql

RULES: Final = (RowRetention("webhook_deliveries", 30 * DAY_MS, sql.purge),)
