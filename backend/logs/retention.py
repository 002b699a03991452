"""How long parts of a log are kept that its stored object has replaced."""

from typing import Final

from backend.logs import sql
from backend.retention import RowRetention

_KEPT_MS: Final = 600_000

RULES: Final = (RowRetention("step_log_parts", _KEPT_MS, sql.purge_parts),)
