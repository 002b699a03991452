"""Rules of runs whose workers fail, wait or change: where they were launched, what they read, what they published."""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tests.faults.cluster import STORED_INPUTS
from tests.faults.content_rules import runs_of
from tests.faults.journal import Record
from tests.faults.state import TERMINAL, State

LAUNCH_FAILED: Final = "launch_failed"
_EXECUTING: Final = ("worker", "serve")
_OF_S3: Final = ("Reads", "AskedReads")
# While the database is away no worker can take a run, nor say that it lives.
_DATABASE_AWAY: Final = ("postgresql away", "restart postgresql")
# Of the time-out, for what the end of a part and the end of a run are noticed late.
_TOLERANCE: Final = 1 / 6
# An error of a step's own code names what it is; steps that read inputs have none.
_NOT_BEGUN: Final = "the runtime could not carry out the step"


def failed_launches(record: Record, state: State) -> Iterator[str]:
    """A run may end so only if no worker served during the whole time-out before."""
    margin = state.launch_timeout_seconds * _TOLERANCE
    for run_id, row in state.runs.items():
        if row.error_code != LAUNCH_FAILED or row.finished_at is None:
            continue
        ended = row.finished_at / 1000 - state.wall_clock_ahead
        within = ended - state.launch_timeout_seconds + margin, ended - margin
        there = sorted({name for name, span in _served(record) if _overlap(span, within)})
        if there:
            yield f"run {run_id} ended at {ended:.1f} although {', '.join(there)} served within the time-out: {row}"


def _served(record: Record) -> Iterator[tuple[str, tuple[float, float]]]:
    """When processes that execute runs served and could reach the database."""
    away = sorted((each.began, each.ended) for each in record.fault_windows if each.kind in _DATABASE_AWAY)
    for name, spans in record.serving.items():
        if name.startswith(_EXECUTING):
            for began, ended in spans:
                reached = began
                for gone, back in away:
                    if reached < gone < ended:
                        yield name, (reached, gone)
                    if gone < ended:
                        reached = max(reached, back)
                if reached < ended:
                    yield name, (reached, ended)


def _overlap(span: tuple[float, float], other: tuple[float, float]) -> bool:
    return span[0] < other[1] and other[0] < span[1]


def missing_inputs(record: Record, state: State) -> Iterator[str]:
    """A run that completed read each file that it was promised; no step fails because one is not there."""
    stored = [hashlib.sha256(data).hexdigest() for _, data in sorted(STORED_INPUTS.items())]
    for run_id in reading_runs(state):
        shown = state.shown_runs[run_id]
        if state.runs[run_id].purged_at is not None:
            continue
        if shown["status"] == "completed" and shown["result"]["digests"] != stored:
            yield f"run {run_id} read {shown['result']}"
        elif shown["status"] == "failed" and _failed_by_its_code(shown["error"]):
            yield f"run {run_id} failed: {shown['error']}"
    attached = {call.about["reference"]: call.about["sha256"] for call in record.of("start_in_console")}
    for run_id, result in state.results_for_people.items():
        if result != {"digests": [attached.get(state.runs[run_id].client_reference or "")]}:
            yield f"run {run_id} read {result}: {state.runs[run_id]}"


def reading_runs(state: State) -> list[str]:
    """The runs whose steps read objects of S3."""
    return [run_id for workflow in _OF_S3 for run_id in runs_of(state, workflow)]


def _failed_by_its_code(error: Mapping[str, Any]) -> bool:
    return error["code"] == "node_failed" and _NOT_BEGUN not in str(error["message"])


def absent_publications(_: Record, state: State) -> Iterator[str]:
    """A publication that the table says is kept, or has landed for a run that ended, is in a graph."""
    for (run_id, graph_id), kept in state.publications.items():
        row = state.runs.get(run_id)
        ended = row is not None and row.status in TERMINAL
        if kept in {"kept", "landed"} and ended and not any(run_id in name for name in state.graphs):
            yield f"of run {run_id} nothing is in {graph_id}, and its publication is {kept}: {row}"
