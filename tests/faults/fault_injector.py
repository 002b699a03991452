"""Injects the faults of a plan into a cluster, and reverts them."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from tests.faults.calls import Calls
from tests.faults.cluster import Cluster
from tests.faults.contention import hold
from tests.faults.journal import Journal
from tests.faults.load import PUBLISHES, Load
from tests.faults.plan import CONTENTIONS, Fault
from tests.faults.worker_faults import WORKERS, WorkerFaults, end_parts
from tests.support.faulty_proxy import FaultMode, FaultyProxy
from tests.support.stepped_clock import SteppedClock

_AT_ONCE: Final = 2
# Answered between the end of a contention and the beginning of another fault.
_QUIET_OPERATIONS: Final = 60
# Runs whose publications meet a server that answers late.
_PUBLISHING: Final = 8
_PAST_ITS_LEASE: Final = "past its lease"
_PARTS: Final = frozenset({"edge", "backend", "worker", "console"})
_THINGS: Final = _PARTS | {"service", "postgresql", "redis", "s3", "graph", "disk", "pool", "workers", "sqlite"}
_S3: Final = {
    "s3 answers 500": FaultMode.ANSWERED_500,
    "s3 answers 503": FaultMode.ANSWERED_503,
    "s3 cuts connections": FaultMode.CUT,
}


class FaultInjector:
    """Carries out faults in their order, up to two at once, never two on the same thing."""

    def __init__(self, cluster: Cluster, journal: Journal, calls: Calls, load: Load, faults: list[Fault]) -> None:
        self._cluster = cluster
        self._journal = journal
        self._load = load
        self._of_workers = WorkerFaults(cluster, journal, calls, load)
        self._left = list(faults)
        self._free = threading.Semaphore(_AT_ONCE)
        self._locks: dict[str, threading.Lock] = {}
        self._threads: list[threading.Thread] = []
        self._failures: list[BaseException] = []
        self._answered = 0
        self._contending: set[int] = set()
        self._quiet_until = 0
        self.done: dict[str, int] = {}

    def over(self) -> bool:
        """Whether every fault was injected; raises if one could not be."""
        if self._failures:
            raise self._failures[0]
        return not self._left

    def look(self, answered: int) -> None:
        """Injects the faults that are due after so many answered operations, if a slot is free; does not wait."""
        self._answered = answered
        while self._left and self._due(self._left[0]) and self._free.acquire(blocking=False):
            if self._left[0].kind in CONTENTIONS:
                self._contending.add(self._left[0].number)
            thread = threading.Thread(target=self._carry_out, args=(self._left.pop(0),))
            self._threads.append(thread)
            thread.start()

    def _due(self, fault: Fault) -> bool:
        """Whether it is its turn: for a while after contentions nothing else excuses calls that fail."""
        quiet = fault.kind in CONTENTIONS or (not self._contending and self._answered >= self._quiet_until)
        return quiet and fault.after <= self._answered

    def end(self) -> None:
        """Waits until every injected fault is over."""
        for thread in self._threads:
            thread.join()

    def _carry_out(self, fault: Fault) -> None:
        try:
            with self._alone(fault):
                self._journal.fault(fault.number, fault.kind, begins=True, seconds=fault.seconds, step=fault.step)
                self._do(fault)
                self._journal.fault(fault.number, fault.kind, begins=False)
            self.done[fault.kind] = self.done.get(fault.kind, 0) + 1
        except BaseException as error:  # noqa: BLE001 - the campaign ends with it
            self._failures.append(error)
        finally:
            if fault.kind in CONTENTIONS:
                self._quiet_until = self._answered + _QUIET_OPERATIONS
                self._contending.discard(fault.number)
            self._free.release()

    @contextmanager
    def _alone(self, fault: Fault) -> Iterator[None]:
        """Holds what no other fault may have that is about the same thing."""
        thing = next(word for word in fault.kind.replace(",", "").split() if word in _THINGS)
        if thing == "workers":
            names = [f"worker {number}" for number in range(WORKERS)]
        else:
            names = [f"{thing} {fault.target}" if thing in _PARTS else thing]
        if _PAST_ITS_LEASE in fault.kind:
            # The other worker goes on.
            names.append(_PAST_ITS_LEASE)
        with ExitStack() as held:
            for name in sorted(names):
                held.enter_context(self._locks.setdefault(name, threading.Lock()))
            yield

    def _do(self, fault: Fault) -> None:
        if fault.kind in CONTENTIONS:
            hold(fault.kind, self._cluster.database, fault.seconds, fault.chance)
        elif fault.kind in self._of_workers.kinds:
            self._of_workers.kinds[fault.kind](fault)
        else:
            self._do_other(fault)

    def _do_other(self, fault: Fault) -> None:
        words = fault.kind.split()
        match words:
            case ["kill", part]:
                end_parts([self._cluster.part(part, fault.target)], signal.SIGKILL)
            case ["restart", "postgresql"]:
                self._postgresql_away(signal.SIGINT if fault.target else signal.SIGQUIT, fault.seconds)
            case ["postgresql", "away"]:
                self._postgresql_away(signal.SIGINT, fault.seconds)
            case ["redis", "away"]:
                self._redis_away(fault)
            case ["step", "clock", "of", part]:
                self._step(part, fault)
            case ["edge", *rest]:
                spoiled = FaultMode.REFUSED if "loses" in rest else FaultMode.SILENT
                self._spoil(self._cluster.links[fault.target], spoiled, fault.seconds)
            case ["s3", *_]:
                self._spoil(self._cluster.s3, _S3[fault.kind], fault.seconds)
            case ["graph", "answers", "late"]:
                self._publish_late(fault)
            case ["graph", *_]:
                self._spoil(self._cluster.graph_link, FaultMode.CUT, fault.seconds)
            case ["disk", "full"]:
                self._fill_disk(fault)
            case _:
                raise ValueError(fault.kind)

    def _postgresql_away(self, how: signal.Signals, seconds: float) -> None:
        self._cluster.postgresql.end(how)
        time.sleep(seconds)
        self._cluster.postgresql.start()

    def _redis_away(self, fault: Fault) -> None:
        redis = self._cluster.redis
        if fault.target:
            redis.freeze()
        else:
            redis.stop()
        time.sleep(fault.seconds)
        redis.start()

    def _step(self, part: str, fault: Fault) -> None:
        clock = self._clock(part, fault.target)
        clock.step(fault.step)
        time.sleep(fault.seconds)
        clock.step(0)

    def _clock(self, part: str, target: int) -> SteppedClock:
        if part == "postgresql":
            return self._cluster.postgresql_clock
        return self._cluster.part(part, target).clock

    def _spoil(self, proxy: FaultyProxy, how: FaultMode, seconds: float) -> None:
        proxy.spoil(how)
        time.sleep(seconds)
        proxy.spoil(FaultMode.NOTHING)

    def _publish_late(self, fault: Fault) -> None:
        """Starts runs that publish, whose attempts then last long: those of several workers may meet."""
        self._cluster.graph_link.spoil(FaultMode.LATE)
        self._load.start_runs(PUBLISHES, f"fault-{fault.number}", _PUBLISHING)
        time.sleep(fault.seconds)
        self._cluster.graph_link.spoil(FaultMode.NOTHING)

    def _fill_disk(self, fault: Fault) -> None:
        disk = self._cluster.disk
        disk.fill()
        time.sleep(fault.seconds)
        disk.relieve()
