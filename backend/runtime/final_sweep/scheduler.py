"""Schedules the final sweeps of finished runs, whose outputs stay closed until then (contract 13.9, 21.11).

The outputs of a run are opened together, in one transaction after all of them were swept and stored. A sweep that
fails, or dies with the process, leaves them closed, and another sweep starts over later under other keys. Of all
sweeps of a run, only the one that began last can open the run, and only once. No row names the objects of the others.
They are removed, because each sweep requests the removal before it stores anything; objects of a run that was erased
meanwhile are removed too.
"""

import logging
import shutil
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from backend.common import metrics
from backend.common.clock import Clock
from backend.common.retry import Backoff, RetryTimes
from backend.resources.redaction.confined_redactor import ConfinedRedactor
from backend.runtime.final_sweep import sql
from backend.runtime.final_sweep.run_sweep import RunSweep
from backend.services.outputs.sql import outputs_of
from backend.services.run_traces import part_of_run
from backend.storage.database import Database
from backend.storage.object_keys import is_output_key, is_shared_file_key, is_unnamed_outputs_key, run_of, run_prefix
from backend.storage.objects import ObjectStore
from backend.storage.outage import TICK_SECONDS, Ticker

_LOG = logging.getLogger(__name__)

CONCURRENT_SWEEPS: Final = 4
"""Most concurrent sweeps of one process; keys without a running sweep share as many more."""

_BACKOFF: Final = Backoff(first_seconds=1.0, longest_seconds=300.0)
_END_SECONDS: Final = 2.0
# Most runs whose objects one round removes.
_MOST_CLEARED: Final = 50
# Time until a run that another process sweeps is looked at again, because that process may die.
_ELSEWHERE_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class _Active:
    """A sweep under way: the key of its run, a request to end it, and its end."""

    key_id: str
    halt: threading.Event = field(default_factory=threading.Event)
    done: threading.Event = field(default_factory=threading.Event)


class FinalSweeps:
    """Sweeps several runs concurrently, round robin by key. `folder` is for copies of the objects being swept.

    Args:
        concurrent: See CONCURRENT_SWEEPS. Each sweep holds a connection to the database, and removals one more.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        objects: ObjectStore,
        redactor: ConfinedRedactor,
        folder: Path,
        *,
        concurrent: int = CONCURRENT_SWEEPS,
    ) -> None:
        self._database = database
        self._objects = objects
        self._redactor = redactor
        self._folder = folder
        self._concurrent = concurrent
        self._ticker = Ticker("final-sweep", self.round, TICK_SECONDS)
        self._retries = RetryTimes(clock, _BACKOFF)
        self._elsewhere: dict[str, float] = {}
        self._lock = threading.Lock()
        self._active: dict[str, _Active] = {}
        self._removing = False
        self._stopping = threading.Event()
        # One thread more than sweeps, for removals.
        self._threads = ThreadPoolExecutor(2 * concurrent + 1, thread_name_prefix="final-sweep")
        # An earlier process may have died in mid-sweep, and nothing unswept may stay on this disk.
        shutil.rmtree(folder, ignore_errors=True)

    def start(self) -> None:
        """Starts a thread that makes rounds periodically and after each sweep."""
        self._ticker.start()

    def round(self) -> "list[Future[None]]":
        """Starts to sweep finished runs that wait for it, and then to remove the originals of swept runs.

        Ends sweeps of runs that no longer wait for one, as after an erasure by any process. Returns futures of the
        sweeps, and of removals if there are any.
        """
        with self._lock:
            active = dict(self._active)
        waiting, unnamed = self._database.snapshot(sql.pending_work)
        for run_id, sweep in active.items():
            if run_id not in waiting:
                sweep.halt.set()
        with self._lock:
            self._retries.keep_only({*waiting, *unnamed})
            self._elsewhere = {run_id: until for run_id, until in self._elsewhere.items() if run_id in waiting}
            chosen = list(self._chosen(waiting))
            self._active.update(chosen)
            # Removals of all objects of a run come first.
            keys = sorted(filter(self._retries.is_due, unnamed), key=is_unnamed_outputs_key, reverse=True)
            remove = bool(keys) and not self._removing
            self._removing |= remove
        started = [self._threads.submit(self._sweep, run_id, sweep) for run_id, sweep in chosen]
        if remove:
            cleared = set(list(dict.fromkeys(map(run_of, keys)))[:_MOST_CLEARED])
            due = [key for key in keys if run_of(key) in cleared]
            started.append(self._threads.submit(self._remove, due, more=len(due) < len(keys)))
        return started

    def forget(self, run_id: str) -> None:
        """Ends the sweep of an erased run, and removes its copies from this disk."""
        with self._lock:
            sweep = self._active.get(run_id)
        if sweep is not None:
            sweep.halt.set()
            sweep.done.wait(_END_SECONDS)
        shutil.rmtree(self._folder / run_id, ignore_errors=True)

    def stop(self) -> None:
        """Ends every sweep, which begins anew in the next process. Idempotent."""
        self._ticker.stop()
        self._stopping.set()
        with self._lock:
            for sweep in self._active.values():
                sweep.halt.set()
        self._threads.shutdown()

    def _chosen(self, waiting: Mapping[str, str]) -> Iterator[tuple[str, _Active]]:
        """Yields the runs to sweep next, those of the keys with the fewest sweeps first."""
        held = Counter(sweep.key_id for sweep in self._active.values())
        now = time.monotonic()
        left = {
            run_id: key_id
            for run_id, key_id in waiting.items()
            if run_id not in self._active and self._retries.is_due(run_id) and self._elsewhere.get(run_id, 0.0) <= now
        }
        while left:
            run_id = min(left, key=lambda one: held[left[one]])
            key_id = left.pop(run_id)
            if held.total() >= self._concurrent * (1 if held[key_id] else 2):
                return
            held[key_id] += 1
            yield run_id, _Active(key_id)

    def _sweep(self, run_id: str, sweep: _Active) -> None:
        folder = self._folder / run_id
        try:
            with self._try_lock(run_id) as mine:
                if not mine:
                    with self._lock:
                        self._elsewhere[run_id] = time.monotonic() + _ELSEWHERE_SECONDS
                    return
                folder.mkdir(parents=True, exist_ok=True)
                run_sweep = RunSweep.find(self._database, self._objects, self._redactor, run_id, folder, sweep.halt)
                if run_sweep is not None:
                    with part_of_run("final sweep", self._database, run_id):
                        run_sweep.run()
        except Exception:  # noqa: BLE001 - its outputs stay closed, and other runs go on
            if not sweep.halt.is_set():
                self._postpone(run_id)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            with self._lock:
                del self._active[run_id]
            sweep.done.set()
            # Other runs may have waited for the end of this sweep.
            self._ticker.wake()

    def _try_lock(self, run_id: str) -> AbstractContextManager[bool]:
        """Returns a context that yields whether no other process sweeps the run."""
        return self._database.try_advisory_lock(f"final sweep {run_id}")

    def _postpone(self, run_id: str) -> None:
        metrics.FINAL_SWEEP_FAILURES.add()
        with self._lock:
            seconds = self._retries.postpone(run_id)
        _LOG.exception("The final sweep of run %s failed; next try in %d s", run_id, seconds)

    def _remove(self, keys: Iterable[str], *, more: bool) -> None:
        """Removes objects that no row names; a failed removal delays neither others nor sweeps."""
        removed = []
        cleared: set[str] = set()
        try:
            for key in keys:
                if self._stopping.is_set():
                    break
                try:
                    if is_unnamed_outputs_key(key):
                        if run_of(key) not in cleared and not self._remove_unnamed(run_of(key)):
                            continue
                        cleared.add(run_of(key))
                    elif run_of(key) not in cleared:
                        self._objects.delete(key)
                except OSError:
                    self._postpone_removal(key)
                else:
                    removed.append(key)
            if removed:
                self._database.write(lambda tx: sql.removed(tx, removed), lock_key="deletions")
        except Exception:  # noqa: BLE001 - the next round tries again
            metrics.REMOVAL_FAILURES.add()
            _LOG.exception("Removals of what no row names failed unexpectedly; they stay pending")
        finally:
            with self._lock:
                self._removing = False
        if more and removed:
            self._ticker.wake()

    def _postpone_removal(self, key: str) -> None:
        metrics.REMOVAL_FAILURES.add()
        what = f"What no row names of run {run_of(key)}" if is_unnamed_outputs_key(key) else f"Object {key}"
        with self._lock:
            seconds = self._retries.postpone(key)
        _LOG.exception("%s could not be removed; next try in %d s", what, seconds)

    def _remove_unnamed(self, run_id: str) -> bool:
        """Removes the shared files of an ended run, and all objects of outputs that no row names.

        Returns False if a process still sweeps the run, and so may be about to store an object; raises OSError.
        """
        with self._try_lock(run_id) as ended:
            if ended:
                named = {output.object_key for output in self._database.read(lambda tx: outputs_of(tx, run_id))}

                def unneeded(key: str) -> bool:
                    return is_shared_file_key(key) or (is_output_key(key) and key not in named)

                self._objects.delete_chosen(run_prefix(run_id), unneeded)
        return ended
