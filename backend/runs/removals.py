"""Removes the objects of erased runs, and uploads that nobody used; what a fault or a crash interrupts is repeated."""

import logging
import threading
from collections.abc import Callable

from backend import metrics
from backend.clock import Clock
from backend.runs import erase_sql
from backend.storage.database import Database, run_of
from backend.storage.object_keys import run_prefix
from backend.storage.objects import ObjectStore
from backend.uploads.removals import UploadRemovals

_LOG = logging.getLogger(__name__)


class Removals:
    """Carries out the removals that `pending_removals` holds, in the calling thread.

    `forget` removes what a run left beside its objects, and must be quick.
    """

    def __init__(self, database: Database, objects: ObjectStore, forget: Callable[[str], None], clock: Clock) -> None:
        self._database = database
        self._objects = objects
        self._forget = forget
        self._uploads = UploadRemovals(database, objects, clock)
        self._halted = threading.Event()

    def halt(self) -> None:
        """Ends the present round after the run that it is at; from any thread."""
        self._halted.set()

    def round(self) -> None:
        """Carries out every removal; one that fails is logged and stays pending.

        `forget` is called for all runs first, so that an object store that is unavailable or slow does not hold it up.
        """
        orders = {order.run_id: order.requested_at for order in self._database.read(erase_sql.ordered_removals)}
        for run_id in self._each(self._forget, list(orders)):
            self._each(lambda run_id: self._remove(run_id, orders[run_id]), [run_id])
        self._uploads.round(self._halted.is_set)

    def _remove(self, run_id: str, ordered_at: int) -> None:
        self._objects.delete_prefix(run_prefix(run_id))
        self._database.write(lambda tx: erase_sql.removed(tx, run_id, ordered_at), lock_key=run_of(run_id))

    def _each(self, what: Callable[[str], None], run_ids: list[str]) -> list[str]:
        """Does it for each run, and returns the runs for which it succeeded."""
        done = []
        for run_id in run_ids:
            if self._halted.is_set():
                break
            try:
                what(run_id)
            except Exception:  # noqa: BLE001 - the run stays erased, and its removal pending
                metrics.REMOVAL_FAILURES.add()
                _LOG.exception("The removal of objects of run %s failed; it stays pending", run_id)
            else:
                done.append(run_id)
        return done
