"""Erases run data that has been kept long enough. (SPEC.md, Workflow and resource limits: run data retention)."""

from collections.abc import Callable
from typing import Final

from backend.clock import DAY_MS
from backend.deployment import sql as deployment_sql
from backend.runs import erase_sql
from backend.runs.erase import erase
from backend.runs.runtime_port import Runtime
from backend.services import Services
from backend.storage.database import Tx

ACTOR: Final = "system"

_MOST_AT_ONCE: Final = 100


class Retention:
    """Does for old runs what `DELETE /runs/{run_id}/data` does for one."""

    def __init__(self, services: Services, runtime: Runtime) -> None:
        self._services = services
        self._runtime = runtime

    def enforce(self, may_go_on: Callable[[], bool]) -> int:
        """Erases runs that finished more than the deployment's `retention_days` ago; returns how many.

        All of them, unless `may_go_on` says no before.
        """
        count = 0
        while may_go_on() and (erased := self._services.database.write(self._erase_some)):
            count += erased
        return count

    def _erase_some(self, tx: Tx) -> int:
        """One transaction for a bounded number of runs, so that no other change waits long behind it."""
        at = self._services.clock()
        days = deployment_sql.get(tx).retention_days
        due = erase_sql.finished_before(tx, at - days * DAY_MS, _MOST_AT_ONCE)
        for run in due:
            erase(tx, self._runtime, run, at=at, actor=ACTOR, details={"retention_days": days})
        return len(due)
