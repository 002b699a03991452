"""Faults of workers: killed, stopped, suspended with their machine, restarted behind a backlog, or all busy."""

import os
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import psycopg

from tests.faults.calls import Calls
from tests.faults.cluster import Cluster, SupervisedPart
from tests.faults.databases import reading
from tests.faults.journal import Journal
from tests.faults.load import ASKED_READS, BUSY, BUSY_SECONDS, CALLS, EXPIRES, FANS_OUT, Load
from tests.faults.plan import STEP_SLOTS, Fault, launch_timeout_seconds
from tests.faults.schedule_people import PLANNED

WORKERS: Final = 2
_BACK_SECONDS: Final = 240
# All slots are taken for as many times the length of a step.
_WAVES: Final = 5
# Runs that wait for an approval when a worker is killed, and how long they get to come so far.
_ASKED: Final = 8
_ASKED_SECONDS: Final = 20
_FLOWS_EACH: Final = 3
_PLANNED_TOGETHER: Final = 8
_PLANNED_AHEAD_SECONDS: Final = 2.0
_AMID_SECONDS: Final = 20
_LOOK_EVERY_SECONDS: Final = 0.05
_AMID_FAN_OUT: Final = """
SELECT 1 FROM steps s JOIN runs r USING (run_id)
WHERE r.status = 'running' AND s.kind = 'agent' AND s.items_completed > 0 AND s.items_completed < s.items_total
"""
_AMID_CHILD: Final = "SELECT 1 FROM runs WHERE parent_run_id IS NOT NULL AND status = 'running'"
_AT_DEADLINE: Final = "SELECT 1 FROM approvals WHERE state = 'pending' AND deadline_at <= {}"


class WorkerFaults:
    """Carries out each of its `kinds` until it is over."""

    def __init__(self, cluster: Cluster, journal: Journal, calls: Calls, load: Load) -> None:
        self._cluster = cluster
        self._journal = journal
        self._calls = calls
        self._load = load
        self.kinds: Mapping[str, Callable[[Fault], None]] = {
            "stop worker past its lease": self._stop,
            "stop worker past its lease, then kill it": self._stop_and_kill,
            "suspend worker past its lease": self._suspend,
            "kill worker, then decide": self._kill_and_decide,
            "fill pool": self._fill_pool,
            "restart workers behind a backlog": self._restart_all,
            "kill workers behind a backlog": self._kill_all,
            "kill workers amid flows": self._kill_workers_amid_flows,
            "kill service amid flows": self._kill_service_amid_flows,
            "kill backend at a deadline": self._kill_at_deadline,
            "kill backend at a due time": self._kill_backend_at_due_time,
            "kill service at a due time": self._kill_service_at_due_time,
        }

    def _stop(self, fault: Fault) -> None:
        kept = self._of(fault)
        if self._freeze(kept, fault.seconds):
            kept.part.signal(signal.SIGCONT)
            self._journal.part(kept.name, serves=True)

    def _stop_and_kill(self, fault: Fault) -> None:
        """The worker never acts on what it missed."""
        kept = self._of(fault)
        if self._freeze(kept, fault.seconds):
            end_parts([kept], signal.SIGKILL)

    def _freeze(self, kept: SupervisedPart, seconds: float) -> bool:
        if not kept.part.alive:
            return False
        self._journal.part(kept.name, serves=False)
        kept.part.signal(signal.SIGSTOP)
        time.sleep(seconds)
        return True

    def _suspend(self, fault: Fault) -> None:
        """Stops a worker with its steps, as a machine that is suspended, which only CLOCK_BOOTTIME shows later."""
        kept = self._of(fault)
        if not kept.part.alive:
            return
        self._journal.part(kept.name, serves=False)
        began = time.monotonic()
        stopped = list(_with_descendants(kept.part.pid, signal.SIGSTOP))
        time.sleep(fault.seconds)
        kept.clock.suspend(time.monotonic() - began)
        for pid in reversed(stopped):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        self._journal.part(kept.name, serves=True)

    def _kill_and_decide(self, fault: Fault) -> None:
        """Kills a worker, and approves what waits, which the other one may go on with before this one is back."""
        self._load.start_runs(ASKED_READS, f"fault-{fault.number}", _ASKED)
        end = time.monotonic() + _ASKED_SECONDS
        while self._load.waiting() < _ASKED and time.monotonic() < end:
            time.sleep(0.5)
        end_parts([self._of(fault)], signal.SIGKILL, meanwhile=self._load.approve_all)

    def _kill_workers_amid_flows(self, fault: Fault) -> None:
        """Kills one worker in the middle of a fan-out, and the other one in the middle of a child."""
        self._begin_flows(fault)
        self._wait_for(lambda: _AMID_FAN_OUT)
        first, second = (self._cluster.part("worker", fault.target + number) for number in range(WORKERS))

        def kill_second() -> None:
            self._wait_for(lambda: _AMID_CHILD)
            end_parts([second], signal.SIGKILL)

        end_parts([first], signal.SIGKILL, meanwhile=kill_second)

    def _kill_service_amid_flows(self, fault: Fault) -> None:
        """Kills it in the middle of both."""
        self._begin_flows(fault)
        self._wait_for(lambda: f"SELECT 1 WHERE EXISTS ({_AMID_FAN_OUT}) AND EXISTS ({_AMID_CHILD})")
        end_parts([self._cluster.part("service", fault.target)], signal.SIGKILL)

    def _begin_flows(self, fault: Fault) -> None:
        for workflow in (FANS_OUT, CALLS):
            self._load.start_runs(workflow, f"fault-{fault.number}-{workflow}", _FLOWS_EACH)

    def _kill_at_deadline(self, fault: Fault) -> None:
        """Kills a backend just when an approval expires, and has people decide what is left."""
        self._load.start_runs(EXPIRES, f"fault-{fault.number}", _FLOWS_EACH)
        # Deadlines take effect within about a second.
        self._wait_for(lambda: _AT_DEADLINE.format(round((time.time() + fault.chance) * 1000)))
        end_parts([self._cluster.part("backend", fault.target)], signal.SIGKILL, meanwhile=self._load.approve_all)

    def _kill_backend_at_due_time(self, fault: Fault) -> None:
        self._kill_at_due_time(self._cluster.part("backend", fault.target), fault)

    def _kill_service_at_due_time(self, fault: Fault) -> None:
        self._kill_at_due_time(self._cluster.part("service", fault.target), fault)

    def _kill_at_due_time(self, part: SupervisedPart, fault: Fault) -> None:
        """Kills what decides on due times in the second in which starts that people planned are due."""
        due_at = time.time() + _PLANNED_AHEAD_SECONDS
        for number in range(_PLANNED_TOGETHER):
            self._calls.plan(PLANNED, f"fault-{fault.number}-{number}", due_at, number % 2)
        time.sleep(max(0.0, due_at + fault.chance - time.time()))
        end_parts([part], signal.SIGKILL)

    def _wait_for(self, query: Callable[[], str]) -> None:
        """Waits until a query gives a row, for a bounded time: another fault may keep it from that."""
        end = time.monotonic() + _AMID_SECONDS
        while time.monotonic() < end:
            with suppress(psycopg.Error, sqlite3.Error), reading(self._cluster.database) as database:
                if database.execute(query()).fetchone() is not None:
                    return
            time.sleep(_LOOK_EVERY_SECONDS)

    def _fill_pool(self, fault: Fault) -> None:
        """Takes every slot for longer than the time-out for launches."""
        self._begin_backlog(fault)
        time.sleep(BUSY_SECONDS * _WAVES)

    def _restart_all(self, fault: Fault) -> None:
        self._end_all(signal.SIGTERM, fault)

    def _kill_all(self, fault: Fault) -> None:
        self._end_all(signal.SIGKILL, fault)

    def _end_all(self, how: signal.Signals, fault: Fault) -> None:
        """Ends all workers once runs that wait for them are older than the time-out for launches."""
        self._begin_backlog(fault)
        time.sleep(launch_timeout_seconds(self._cluster.store))
        workers = [self._cluster.part("worker", number) for number in range(WORKERS)]
        for kept in workers:
            # From the signal on it takes no run, and gives its lease back before it ends.
            self._journal.part(kept.name, serves=False)
        end_parts(workers, how)

    def _begin_backlog(self, fault: Fault) -> None:
        self._load.start_runs(BUSY, f"fault-{fault.number}", WORKERS * STEP_SLOTS * _WAVES)

    def _of(self, fault: Fault) -> SupervisedPart:
        return self._cluster.part("worker", fault.target)


def end_parts(kept: list[SupervisedPart], how: signal.Signals, meanwhile: Callable[[], None] = lambda: None) -> None:
    """Ends parts and waits until they are started again, for a bounded time: what they need may be away as well."""
    before = [each.starts for each in kept]
    for each in kept:
        if each.part.alive:
            each.part.signal(how)
    meanwhile()
    end = time.monotonic() + _BACK_SECONDS
    while time.monotonic() < end and not all(
        each.starts > starts and each.part.alive and each.part.ready for each, starts in zip(kept, before, strict=True)
    ):
        time.sleep(0.1)


def _with_descendants(pid: int, number: signal.Signals) -> Iterator[int]:
    """Sends a signal to a process, then to those below it; yields the ones that were there."""
    try:
        os.kill(pid, number)
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        yield pid
        for task in tasks:
            for child in (task / "children").read_text().split():
                yield from _with_descendants(int(child), number)
    except (ProcessLookupError, FileNotFoundError):
        return
