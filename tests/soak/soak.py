"""One soak: a deployment under a steady load, sampled to its end, and the verdict on what grew."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.soak.growth import HEAD, Bound, Growth, judge
from tests.soak.load import Load
from tests.soak.samples import Sample
from tests.soak.stage import Stage, started
from tests.support.poll import until
from tests.support.webhook_receiver import ReceivedMessage, receiving

MANIFESTS: Final = Path(__file__).with_name("workflows.yaml")
DAY_OF_RUNS: Final = 20_000
DAY_OF_CALLS: Final = 500_000
"""What passes in an hour at scale 1."""

_HOUR_SECONDS: Final = 3_600
_REST_SECONDS: Final = 200
_SAMPLES: Final = 240
_SHORTEST_SECONDS: Final = 1.0
_AGED_EVERY: Final = 60
"""So many times data is made older than it is kept."""
_KEPT_SHARE: Final = 0.15
"""Data is kept for this share of a soak, so that it has reached its size long before the second half."""
_MB: Final = 1_000_000
_REFUSED_AT_FIRST: Final = ("0", "1", "2", "3")

BOUNDS: Final[Mapping[str, Bound]] = {
    # Fragmentation, and caches with a fixed size that fill late.
    "resident memory": Bound(24 * _MB, 0.10, {}),
    "unique memory": Bound(16 * _MB, 0.10, {}),
    # One step's process more or less at the time of a sample.
    "unique memory of child processes": Bound(80 * _MB, 0.25, {}),
    "child processes": Bound(6, 0.25, {}),
    "open files of child processes": Bound(100, 0.25, {}),
    # Connections of callers, and what the calls at one time open.
    "open files": Bound(8, 0.10, {}),
    "sockets": Bound(8, 0.10, {}),
    "threads": Bound(8, 0.15, {}),
    # What upkeep keeps are the runs of one share of the soak.
    "objects: files": Bound(80, 0.30, {}),
    "objects: bytes": Bound(4 * _MB, 0.30, {}),
    "other data: files": Bound(120, 0.30, {}),
    "temporary folder: files": Bound(20, 0.30, {}),
    "temporary folder: bytes": Bound(4 * _MB, 0.30, {}),
    # Of an erased run its row and indexes stay, its segments, and its place in lists; a reused page more or less.
    "database: bytes": Bound(4 * _MB, 0.15, {"runs started": 4_000}),
    "database: bytes of its log": Bound(8 * _MB, 0.30, {}),
    "database: connections": Bound(3, 0.10, {}),
    # Autovacuum begins at a fifth of a table.
    "database: dead rows": Bound(30_000, 0.50, {}),
    # The queue on PostgreSQL is purged every ten minutes, in which 3,300 runs are started.
    "rows of dbos.workflow_status": Bound(5_000, 0.3, {}),
    "rows of dbos.workflow_input": Bound(5_000, 0.3, {}),
    "rows of dbos.workflow_output": Bound(5_000, 0.3, {}),
    # Kept for good, as an account of what ran and who called.
    "rows of runs": Bound(5, 0, {"runs started": 1}),
    "rows of run_labels": Bound(5, 0, {"runs started": 1}),
    "rows of segments": Bound(10, 0, {"runs started": 3}),
    "rows of api_keys": Bound(1, 0, {"keys created": 1}),
    "rows of daily_usage": Bound(1, 0, {"keys created": 1}),
    # By the hour, key, route and status: 400 days.
    "rows of usage_hours": Bound(60, 0.05, {"keys created": 6}),
}
_OTHER_ROWS: Final = Bound(100, 0.30, {})
"""A table that nothing is said about holds what is under way, or what upkeep deletes."""

_AT_REST: Final[Mapping[str, str]] = {
    "runs under way": "SELECT count(*) FROM runs WHERE status IN ('queued', 'running', 'waiting_for_approval')",
    "open segments": "SELECT count(*) FROM segments WHERE state <> 'ended'",
    "approvals that wait": "SELECT count(*) FROM approvals WHERE state = 'pending'",
    "removals to do": "SELECT count(*) FROM pending_removals",
    "deletions to do": "SELECT count(*) FROM pending_deletions",
    "webhook messages to deliver": "SELECT count(*) FROM webhook_deliveries WHERE state = 'pending'",
}


@dataclass(frozen=True)
class Extent:
    """How long a soak takes, and its part of a day's load in an hour."""

    seconds: float
    scale: float


@dataclass(frozen=True)
class Outcome:
    """What was done, what grew, and what was left at rest."""

    counts: Counter[str]
    unexpected: Counter[str]
    growths: list[Growth]
    left: dict[str, int]
    samples: int
    logs: dict[str, str]

    @property
    def code(self) -> int:
        grows = any(growth.unexplained for growth in self.growths)
        return int(grows or bool(self.unexpected) or any(self.left.values()))

    def __str__(self) -> str:
        lines = [f"done: {', '.join(f'{kind} {count:,}' for kind, count in sorted(self.counts.items()))}"]
        lines += [f"UNEXPECTED {count} times {answer}" for answer, count in self.unexpected.most_common(10)]
        lines += [f"{self.samples} samples; `grown` over the second half, less what is explained", HEAD]
        lines += [str(growth) for growth in self.growths]
        lines += [f"at rest: {', '.join(f'{what} {count}' for what, count in self.left.items())}"]
        return "\n".join(lines)


class _RefusedOnce:
    """Refuses some messages, each the first time that it comes."""

    def __init__(self) -> None:
        self._refused: set[str] = set()

    def __call__(self, message: ReceivedMessage) -> bool:
        if not message.message_id.endswith(_REFUSED_AT_FIRST) or message.message_id in self._refused:
            return False
        self._refused.add(message.message_id)
        return True


def run_soak(
    folder: Path,
    database: str,
    extent: Extent,
    beside: Callable[[Stage], AbstractContextManager[None]] = lambda _: nullcontext(),
) -> Outcome:
    """Runs it to its end, within the context of what happens beside the load."""
    with receiving() as receiver, started(database, folder) as stage:
        receiver.refuses = _RefusedOnce()
        load = Load(stage, stage.admin.apply(MANIFESTS.read_text(), MANIFESTS.name), receiver.url)
        before = stage.sample()
        load.start(extent.scale * DAY_OF_CALLS / _HOUR_SECONDS)
        try:
            with beside(stage):
                times, samples = _watched(stage, load, extent.seconds)
        finally:
            load.stop()
        load.end_runs()
        left = _left(stage, before)
        logs = {role: part.log() for role, part in stage.parts.items()}
    names = {name for sample in samples for name in sample if name.startswith("rows of ")}
    bounds = {**dict.fromkeys(names, _OTHER_ROWS), **BOUNDS}
    growths = judge(times, samples, bounds)
    return Outcome(load.done.counts, load.done.unexpected, growths, left, len(samples), logs)


def _watched(stage: Stage, load: Load, seconds: float) -> tuple[list[float], list[Sample]]:
    """Samples it regularly, and lets time pass for what is kept."""
    began = time.monotonic()
    every = max(_SHORTEST_SECONDS, seconds / _SAMPLES)
    ended = threading.Event()
    failed: list[BaseException] = []

    def let_time_pass() -> None:
        try:
            while not ended.wait(max(_SHORTEST_SECONDS, seconds / _AGED_EVERY)):
                stage.age(seconds * _KEPT_SHARE)
        except BaseException as error:  # noqa: BLE001 - raised below
            failed.append(error)

    passing = threading.Thread(target=let_time_pass, daemon=True)
    passing.start()
    times: list[float] = []
    samples: list[Sample] = []
    try:
        while (at := time.monotonic() - began) < seconds and not failed:
            times.append(at)
            samples.append(stage.sample() | {name: load.done.counts[name] for name in ("runs started", "keys created")})
            time.sleep(max(0.0, every - (time.monotonic() - began - at)))
    finally:
        ended.set()
        passing.join()
    for error in failed:
        raise error
    return times, samples


def _left(stage: Stage, before: Sample) -> dict[str, int]:
    """Counts what should be gone once nothing is under way, as soon as it is gone or at the end of the time for it."""

    def now() -> dict[str, int]:
        counted = {what: int(stage.database.rows(query)[0][0]) for what, query in _AT_REST.items()}
        counted["objects of erased runs"] = len(set(_objects_of_erased(stage)))
        temporary = "temporary folder: files"
        return counted | {temporary: int(max(0, stage.sample()[temporary] - before[temporary]))}

    with suppress(AssertionError):
        until(lambda: not any(now().values()), "rest", seconds=_REST_SECONDS, every=1.0)
    return now()


def _objects_of_erased(stage: Stage) -> Iterator[str]:
    erased = {row[0] for row in stage.database.rows("SELECT run_id FROM runs WHERE data_purged_at IS NOT NULL")}
    for path in stage.folders["objects"].rglob("*"):
        run_id = next((part for part in path.parts if part in erased), None)
        if run_id is not None and path.is_file():
            yield run_id
