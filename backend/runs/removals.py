"""Removes what erased runs left, for certain: what a fault or a crash interrupts is done later."""

import logging
import threading
from collections.abc import Callable

from backend import metrics
from backend.runs import erase_sql
from backend.storage.database import Database, run_of
from backend.storage.object_keys import run_prefix
from backend.storage.objects import ObjectStore

_LOG = logging.getLogger(__name__)


class Removals:
    """Carries out the removals that are ordered in `pending_removals`, in the calling thread.

    `forget` removes what a run left beside its objects; it is quick.
    """

    def __init__(self, database: Database, objects: ObjectStore, forget: Callable[[str], None]) -> None:
        self._database = database
        self._objects = objects
        self._forget = forget
        self._halted = threading.Event()

    def halt(self) -> None:
        """Has what is going on end after the run it is at; from any thread."""
        self._halted.set()

    def round(self) -> None:
        """Carries out every removal; what fails is logged and stays ordered.

        No object store that is away or slow holds up what else is to be removed.
        """
        orders = {order.run_id: order.requested_at for order in self._database.read(erase_sql.ordered_removals)}
        for run_id in self._done(self._forget, list(orders)):
            self._done(lambda run_id: self._remove(run_id, orders[run_id]), [run_id])

    def _remove(self, run_id: str, ordered_at: int) -> None:
        self._objects.delete_prefix(run_prefix(run_id))
        self._database.write(lambda tx: erase_sql.removed(tx, run_id, ordered_at), lock_key=run_of(run_id))

    def _done(self, what: Callable[[str], None], run_ids: list[str]) -> list[str]:
        """The runs for which it could be done."""
        done = []
        for run_id in run_ids:
            if self._halted.is_set():
                break
            try:
                what(run_id)
            except Exception:  # noqa: BLE001 - the erasure holds whatever fails, and the order stands until it is done
                metrics.REMOVAL_FAILURES.add()
                _LOG.exception("What run %s left is still to be removed", run_id)
            else:
                done.append(run_id)
        return done
