"""Removes the objects of erased runs, for certain: what a fault or a crash interrupts is done later."""

import logging
from collections.abc import Callable, Iterable

from backend.runs import erase_store as store
from backend.runs.runtime_port import Runtime
from backend.storage.database import Database
from backend.storage.object_keys import run_prefix
from backend.storage.objects import ObjectStore

_LOG = logging.getLogger(__name__)


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
            self._database.write(lambda tx: store.removed(tx, run_id))
        except Exception:  # noqa: BLE001 - the erasure holds whatever the store says; the order stands until it is done
            _LOG.exception("The objects of run %s are still to be removed", run_id)

    def remove_all(self, run_ids: Iterable[str], may_go_on: Callable[[], bool]) -> None:
        """Removes what several runs left until `may_go_on` says no; the rest stays ordered."""
        for run_id in run_ids:
            if not may_go_on():
                return
            self.remove(run_id)

    def resume(self, may_go_on: Callable[[], bool]) -> None:
        """Carries out every removal that is still ordered, as `remove_all`."""
        self.remove_all(self._database.read(store.ordered_removals), may_go_on)
