"""How long idempotency records and the data of finished runs are kept (contract 22.6)."""

from dataclasses import dataclass
from typing import Final

from backend.clock import DAY_MS
from backend.deployment import sql as deployment_sql
from backend.retention import RetentionRule, RowRetention
from backend.runs import erase_sql
from backend.runs.erase import erase
from backend.runs.runtime_port import Runtime
from backend.runs.start import sql as start_sql
from backend.runs.start.idempotency import RECORD_LIFE_MS
from backend.storage.database import Tx

ACTOR: Final = "system"

_BATCH: Final = 100


@dataclass(frozen=True, slots=True)
class RunDataRetention:
    """Erases the data of runs that finished more than the deployment's `retention_days` ago.

    It does for old runs what `DELETE /runs/{run_id}/data` does for one; `runtime` removes their objects.
    """

    runtime: Runtime
    name: str = "runs_erased"
    kept_ms: None = None

    def delete_batch(self, tx: Tx, now: int) -> int:
        """Erases some runs; see `RetentionRule.delete_batch`."""
        days = deployment_sql.get(tx).retention_days
        due = erase_sql.finished_before(tx, now - days * DAY_MS, _BATCH)
        for run in due:
            erase(tx, self.runtime, run, at=now, actor=ACTOR, details={"retention_days": days})
        return len(due)


def rules(runtime: Runtime) -> tuple[RetentionRule, ...]:
    """Returns the rules of runs, those that are overdue most first."""
    return RunDataRetention(runtime), RowRetention("idempotency_records", RECORD_LIFE_MS, start_sql.purge_records)
