"""How long sessions and failed sign-ins are kept."""

from typing import Final

from backend.retention import RowRetention
from backend.users import sql, tries_sql
from backend.users.rules import SESSION_MS, TRIES_KEPT_MS

RULES: Final = (
    RowRetention("sessions", SESSION_MS, sql.purge_sessions),
    RowRetention("sign_in_tries", TRIES_KEPT_MS, tries_sql.purge),
)
