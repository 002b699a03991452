"""Rules of what runs leave: what a policy redacts, and what is published."""

import re
from collections.abc import Iterator
from typing import Final

from tests.faults.journal import Record
from tests.faults.state import State

# What each run of the workflow that publishes writes.
_PUBLISHED_TRIPLES: Final = 3
_RUN_OF_GRAPH: Final = re.compile(r"run_[0-9a-z]+")


def shown_values(record: Record, state: State) -> Iterator[str]:
    """A planted value in an answer, an event, a log or an object, whether a row names it or not."""
    for call in record.calls:
        if call.said.get("planted"):
            yield f"{call}: holds a planted value"
    for place in state.planted_in:
        yield f"{place} holds a planted value"
    for key, stored in state.objects.items():
        if stored.planted:
            yield f"object {key} holds a planted value"


def wrong_counts(_: Record, state: State) -> Iterator[str]:
    """Manifests of completed runs are whole, and equal: each did the same."""
    manifests = {
        run_id: manifest
        for run_id, manifest in state.redactions.items()
        if state.shown_runs[run_id]["status"] == "completed"
    }
    counts = {}
    for run_id, manifest in manifests.items():
        if any(stage["status"] != "completed" for stage in manifest["stages"]):
            yield f"run {run_id}: {manifest}"
        counts[run_id] = {key: value for key, value in manifest.items() if key != "run_id"}
    for run_id, each in counts.items():
        if each != next(iter(counts.values())):
            yield f"run {run_id}: {each}, others {next(iter(counts.values()))}"


def wrong_publications(_: Record, state: State) -> Iterator[str]:
    """A graph for each completed run, with its triples once; none of an erased run, and of nobody."""
    published = {found[0]: size for name, size in state.graphs.items() if (found := _RUN_OF_GRAPH.search(name))}
    if len(published) != len(state.graphs):
        yield f"graphs of nobody, or two of a run: {sorted(state.graphs)}"
    for run_id, size in published.items():
        row = state.runs.get(run_id)
        if row is None or row.purged_at is not None:
            yield f"of run {run_id} {size} triples are published: {row}"
        elif size != _PUBLISHED_TRIPLES:
            yield f"of run {run_id} {size} triples are published, should be {_PUBLISHED_TRIPLES}"
    for run_id, shown in state.shown_runs.items():
        done = shown.get("status") == "completed" and state.runs[run_id].purged_at is None
        if done and _workflow(state, run_id) == "Publishes" and not shown["warnings"] and run_id not in published:
            yield f"run {run_id} has no warning, and nothing is published: {shown}"


def runs_of(state: State, workflow: str) -> list[str]:
    """The shown runs of a workflow."""
    return [run_id for run_id in state.shown_runs if _workflow(state, run_id) == workflow]


def _workflow(state: State, run_id: str) -> str | None:
    return state.workflows.get(state.shown_runs[run_id].get("workflow_id", ""))
