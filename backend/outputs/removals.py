"""Removes the objects of erased runs, for certain: what a crash interrupts is done at the next start."""

import logging

from sqlalchemy import bindparam, delete, select

from backend.outputs.objects import run_prefix
from backend.outputs.tables import pending_removals
from backend.runs.runtime_port import Runtime
from backend.storage.database import Database
from backend.storage.objects import ObjectStore
from backend.storage.statements import sql

_LOG = logging.getLogger(__name__)

_PENDING = sql(select(pending_removals.c.run_id).order_by(pending_removals.c.requested_at))
_DONE = sql(delete(pending_removals).where(pending_removals.c.run_id == bindparam("of_run_id")))


class Removals:
    """Carries out the removals that erasures ordered in `pending_removals`."""

    def __init__(self, database: Database, objects: ObjectStore, runtime: Runtime) -> None:
        self._database = database
        self._objects = objects
        self._runtime = runtime

    def remove(self, run_id: str) -> None:
        """Removes a run's objects and work folders; what fails is logged and stays ordered."""
        try:
            self._runtime.forget(run_id)
            self._objects.delete_prefix(run_prefix(run_id))
            self._database.write(lambda tx: tx.run(_DONE, of_run_id=run_id))
        except Exception:  # noqa: BLE001 - the erasure holds whatever the store says; the order stands until it is done
            _LOG.exception("The objects of run %s are still to be removed", run_id)

    def resume(self) -> None:
        """Carries out every removal that is still ordered; called at the start of the process."""
        for row in self._database.read(lambda tx: tx.all(_PENDING)):
            self.remove(row.run_id)
