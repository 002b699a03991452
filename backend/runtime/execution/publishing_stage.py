"""The publishing stage of a run: orders its publications, waits for them, and returns warnings of those that failed."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from backend import json_text
from backend.runtime.execution.segment_context import SegmentContext
from backend.runtime.execution.step_states import StepStates
from backend.runtime.publishing import sql
from backend.runtime.publishing.publisher import PublicationSuccess, Watch
from backend.storage.database import Tx
from backend.workflows.terms import PublicationTerms

Record = Callable[[Callable[[Tx, int], object]], Awaitable[None]]
"""Records the gathered changes of steps, with this work in the same transaction."""

Wait = Callable[["asyncio.Future[Any]", float], Awaitable[None]]
"""Waits for a future, for so many seconds at most; raises StoppedError when the segment is to stop."""

_LONGEST_REASON: Final = 1_000


async def publish(
    context: SegmentContext,
    run_id: str,
    entries: Sequence[PublicationTerms],
    step_states: StepStates,
    record: Record,
    wait: Wait,
    *,
    reasons: bool,
) -> list[str]:
    """Publishes a run's outputs concurrently; returns a warning for each publication that did not land within its wait.

    Such a publication goes on after the run, until it lands (contract 14.3). `reasons` says whether a warning
    may hold the reason of a failure, which may quote a file.
    """
    warnings: list[str] = []
    followed: list[tuple[PublicationTerms, str, Watch]] = []
    publisher = context.publisher

    def warn(entry: PublicationTerms, text: str) -> None:
        warnings.append(f"Publishing to knowledge graph '{entry.knowledge_graph}' {text}"[:_LONGEST_REASON])
        step_states.changes.event("warning", message=warnings[-1], knowledge_graph=entry.knowledge_graph)

    names = [entry.knowledge_graph for entry in entries]
    graphs = await context.in_thread(
        lambda: context.database.read(lambda tx: [sql.graph_named(tx, name) for name in names])
    )
    found = [(entry, graph) for entry, graph in zip(entries, graphs, strict=True) if graph is not None]
    for entry in entries:
        step_states.changes.event("publish.started", knowledge_graph=entry.knowledge_graph)

    def order(tx: Tx, at: int) -> None:
        for entry, graph in found:
            sql.order(
                tx,
                run_id=run_id,
                graph_id=graph.resource_id,
                graph_version=graph.version,
                entry=json_text.write(entry.chosen),
                now=at,
            )

    try:
        followed += [(entry, graph.resource_id, publisher.watch(run_id, graph.resource_id)) for entry, graph in found]
        await record(order)
        publisher.wake()
        claimed = asyncio.get_running_loop().time()
        for entry, graph in zip(entries, graphs, strict=True):
            if graph is None:
                warn(entry, "failed: there is no knowledge graph of that name.")
        for entry, _, watch in followed:
            left = claimed + entry.wait_seconds - asyncio.get_running_loop().time()
            await wait(asyncio.wrap_future(watch.outcome), max(left, 0.0))
            if not watch.outcome.done():
                so_far = f" The last attempt failed: {watch.problem}." if watch.problem and reasons else ""
                warn(entry, f"was still building when its wait of {entry.wait_seconds} seconds expired.{so_far}")
                continue
            outcome = watch.outcome.result()
            if isinstance(outcome, PublicationSuccess):
                step_states.changes.event(
                    "publish.completed",
                    knowledge_graph=entry.knowledge_graph,
                    graph=outcome.name,
                    triples=outcome.triples,
                )
            else:
                warn(entry, f"failed: {outcome.reason}." if reasons else "failed.")
    finally:
        for _, graph_id, _ in followed:
            publisher.unwatch(run_id, graph_id)
    return warnings
