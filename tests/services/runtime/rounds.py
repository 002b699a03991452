"""The launcher, the run reaper and the upkeep, round by round, with an engine that only records its calls."""

from dataclasses import dataclass, field

from sqlalchemy import bindparam, select

from backend.runtime.scheduling.dispatcher import Launcher
from backend.runtime.scheduling.run_reaper import RunReaper
from backend.services.audit import sql as audit_sql
from backend.services.keys import usage_sql
from backend.services.model_usage import sql as model_usage_sql
from backend.services.runs import erasure as runs_retention
from backend.storage.retention import RetentionJob
from backend.storage.statements import ScalarQuery
from backend.storage.tables.segments import segments
from tests.services.runs.world import World


@dataclass
class RecordingEngine:
    submitted: list[str] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    lost: set[str] = field(default_factory=set)
    dispatches: list[int] = field(default_factory=list)

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def submit(self, segment_id: str, dispatch: int) -> None:
        self.submitted.append(segment_id)
        self.dispatches.append(dispatch)

    def cancel(self, segment_id: str) -> None:
        self.cancelled.append(segment_id)

    def abandon(self, segment_id: str) -> None:
        self.cancel(segment_id)

    def executes(self, segment_id: str) -> bool:
        return segment_id not in self.lost

    def claimed(self) -> set[str]:
        return set()


class Rounds:
    def __init__(self, world: World, most: int = 4) -> None:
        services = world.services
        self.engine = RecordingEngine()
        self.launcher = Launcher(services.database, services.clock, self.engine, lambda: most, reserve=True)
        self.steady_seconds = 0.0
        self.reaper = RunReaper(
            services.database,
            services.clock,
            self.engine,
            launch_timeout_ms=300_000,
            steady=lambda: self.steady_seconds,
        )
        self.upkeep = RetentionJob(services.database, services.clock)
        runs = runs_retention.rules(world.runtime)
        self.upkeep.register(*runs, *usage_sql.RETENTION, *model_usage_sql.RETENTION, *audit_sql.RETENTION)

    def sweep_after(self, world: World, seconds: int, *, launch: bool = False) -> None:
        """Lets time pass in rounds of five seconds, each of which sweeps, and launches where asked to."""
        while True:
            passed = min(seconds, 5)
            self.steady_seconds += passed
            world.clock.advance(seconds=passed)
            self.reaper.reap()
            if launch:
                self.launcher.launch()
            seconds -= passed
            if not seconds:
                return


def segment_of(world: World, run_id: str) -> str:
    query = ScalarQuery[str](select(segments.c.segment_id).where(segments.c.run_id == bindparam("run_id")))
    return world.services.database.read(lambda tx: tx.scalar_one(query, run_id=run_id))
