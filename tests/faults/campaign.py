"""One campaign: a deployment under the load and the faults of a plan, then the verdict of an auditor."""

import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.faults import plan
from tests.faults.calls import Calls
from tests.faults.cluster import Cluster, write_scene
from tests.faults.fault_injector import FaultInjector
from tests.faults.flow_people import FlowPeople
from tests.faults.journal import Journal
from tests.faults.load import Load
from tests.faults.load_record import LoadRecord
from tests.faults.packages import Packages
from tests.faults.people import ADMINISTRATOR, People
from tests.faults.releases import ENVIRONMENT
from tests.faults.schedule_people import SchedulePeople
from tests.faults.settle import settle
from workflow_api.v1.environments_pb2 import EnvironmentBuildState

_AUDIT_SECONDS: Final = 900


@dataclass(frozen=True)
class Outcome:
    """What was done, and what the auditor printed; its exit code is 0 where nothing was violated."""

    seed: int
    operations: dict[str, int]
    faults: dict[str, int]
    audit: str
    code: int
    restarts: int
    seconds: float
    settled: dict[str, float]
    """Seconds of each part of the settling."""
    logs: dict[str, str]

    def __str__(self) -> str:
        done = [
            f"seed {self.seed}",
            f"operations answered: {sum(self.operations.values())}  {_counts(self.operations)}",
            f"faults: {sum(self.faults.values())}  {_counts(self.faults)}",
            f"parts started again: {self.restarts}; {self.seconds:.0f} s, of them to settle {_seconds(self.settled)}",
        ]
        return "\n".join([*done, self.audit.rstrip()])


def run_campaign(folder: Path, seed: int, store: str, extent: plan.Extent) -> Outcome:
    """Runs it to its end; the journal stays in the folder."""
    began = time.monotonic()
    journal = Journal(folder / "journal.jsonl")
    with Cluster(store, journal) as cluster:
        known = LoadRecord()
        calls = Calls(cluster, journal)
        people = People(cluster, journal, calls, known)
        packages = Packages(calls, cluster.wheels)
        there = {name: weight for name, weight in plan.workflows(store).items() if name in cluster.flows}
        groups = (people, packages, FlowPeople(calls, known), SchedulePeople(calls))
        others = {kind: carry_out for group in groups for kind, carry_out in group.operations.items()}
        load = Load(calls, known, there, cluster.hook, others)
        injector = FaultInjector(cluster, journal, calls, load, plan.faults(seed, store, extent))

        def enough() -> bool:
            injector.look(load.answered)
            return injector.over() and load.answered >= extent.operations

        load.begin()
        people.begin()
        try:
            load.run(plan.operations(seed), extent.rate, enough)
        finally:
            injector.end()
        assert injector.over()
        settled = settle(cluster, calls, known, load)
        scene = folder / "scene.json"
        keys = [{"key": key.key_id, "headers": key.headers, "revoked": key.revoked} for key in known.keys]
        built = calls.environment(ENVIRONMENT, 0)
        environment = {"state": EnvironmentBuildState.Name(built.state), "message": built.message}
        environment |= {"locked": list(built.locked), "digest": built.lock_digest}
        told = {"keys": keys, "cookies": people.cookies[ADMINISTRATOR], "environment": environment}
        journal.close()
        write_scene(scene, {**cluster.scene(), **told})
        audit = subprocess.run(
            [sys.executable, "-m", "tests.faults.auditor", journal.path, "--scene", scene],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_AUDIT_SECONDS,
            check=False,
        )
        scene.unlink()
        return Outcome(
            seed,
            load.by_kind,
            injector.done,
            audit.stdout,
            audit.returncode,
            cluster.restarts(),
            time.monotonic() - began,
            settled,
            cluster.logs(),
        )


def _counts(by_kind: dict[str, int]) -> str:
    return ", ".join(f"{kind} {count}" for kind, count in sorted(by_kind.items()))


def _seconds(by_part: dict[str, float]) -> str:
    return ", ".join(f"{part} {seconds:.0f} s" for part, seconds in by_part.items())
