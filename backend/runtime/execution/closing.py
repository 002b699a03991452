"""The stages after the last step of a run: its result is validated and stored, and its outputs are published."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from backend.common import json_text
from backend.common.json_text import JsonText
from backend.runtime.execution import retries
from backend.runtime.execution.claim import ClaimedSegment
from backend.runtime.execution.segment_context import SegmentContext, StoppedError, StopSignal
from backend.runtime.execution.step_states import StepStates
from backend.runtime.promotion import (
    SUMMARY,
    StoredResult,
    carried_summary,
    discard,
    inline_result,
    make_result,
    may_carry_summary,
    result_in_row,
)
from backend.runtime.publishing import sql
from backend.runtime.publishing.publisher import PublicationSuccess, PublicationWatch
from backend.services.workflows.resolved_workflow import ResolvedPublication
from backend.storage.database import Tx

Record = Callable[[Callable[[Tx, int], object]], Awaitable[None]]
"""Records the gathered changes of steps, with this work in the same transaction."""

Wait = Callable[["asyncio.Future[Any]", float], Awaitable[None]]
"""Waits for a future, with a timeout in seconds; raises StoppedError when the segment is to stop."""

_LONGEST_REASON: Final = 1_000


async def store_result(
    context: SegmentContext, claimed: ClaimedSegment, stop_signal: StopSignal, value: str
) -> StoredResult:
    """Validates a result, as JSON text, by its schema, and stores it.

    Raises:
        StoppedError: the segment is to stop; validation and storing have ended.
        ValidatorUnavailableError: the result could not be validated.
        OSError: the object store refused the result.
    """
    if claimed.workflow.result_schema is None and not may_carry_summary(value) and _fits_row(context, claimed, value):
        return result_in_row(claimed.run_id, value)
    storing = asyncio.create_task(_validate_and_store(context, claimed, value))
    try:
        return await stop_signal.result_of(storing)
    except StoppedError:
        storing.cancel()
        # Once the run is closed it may be erased, and nothing may be stored for it after that.
        await asyncio.wait({storing})
        raise


def _fits_row(context: SegmentContext, claimed: ClaimedSegment, value: str) -> bool:
    """Returns whether the run's row alone can hold the result, without an object.

    Other processes on a shared database may be of an earlier version, which reads results from objects alone. The
    result of a run that publishes becomes an output before its close.
    """
    shown = claimed.redaction is None and not claimed.workflow.publish
    return shown and not context.database.remote and inline_result(value) is not None


async def _validate_and_store(context: SegmentContext, claimed: ClaimedSegment, value: str) -> StoredResult:
    schema, mismatch = claimed.workflow.result_schema, None
    if schema is not None:
        mismatch = await retries.RESOURCE.run(
            lambda: context.in_cancellable_thread(
                lambda halt: context.schemas.mismatch(schema, value, "result", owner=claimed.key_id, halt=halt)
            ),
            f"Validating the result of run {claimed.run_id}",
        )
    summary = await _summary(context, claimed, value)
    if mismatch is None and _fits_row(context, claimed, value):
        return result_in_row(claimed.run_id, value, summary)
    return await retries.RESOURCE.run(
        lambda: context.in_cancellable_thread(
            lambda _: make_result(context.objects, claimed.run_id, value, mismatch, summary),
            undo=lambda made: discard(context.objects, [made.output]),
        ),
        f"Storing the result of run {claimed.run_id}",
    )


async def _summary(context: SegmentContext, claimed: ClaimedSegment, value: str) -> str | None:
    if not may_carry_summary(value):
        return None
    parsed = json_text.shared(value)
    if not isinstance(parsed, JsonText):
        return carried_summary(parsed)
    return await retries.RESOURCE.run(
        lambda: context.in_cancellable_thread(
            lambda halt: context.schemas.member(value, SUMMARY, owner=claimed.key_id, halt=halt)
        ),
        f"Reading the result of run {claimed.run_id}",
    )


async def publish(
    context: SegmentContext,
    run_id: str,
    entries: Sequence[ResolvedPublication],
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
    followed: list[tuple[ResolvedPublication, str, PublicationWatch]] = []
    publisher = context.publisher

    def warn(entry: ResolvedPublication, text: str) -> None:
        warnings.append(f"Publishing to knowledge graph '{entry.knowledge_graph}' {text}"[:_LONGEST_REASON])
        step_states.changes.add_event("warning", message=warnings[-1], knowledge_graph=entry.knowledge_graph)

    names = [entry.knowledge_graph for entry in entries]
    graphs = await context.in_thread(
        lambda: context.database.read(lambda tx: [sql.graph_named(tx, name) for name in names])
    )
    found = [(entry, graph) for entry, graph in zip(entries, graphs, strict=True) if graph is not None]
    for entry in entries:
        step_states.changes.add_event("publish.started", knowledge_graph=entry.knowledge_graph)

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
                step_states.changes.add_event(
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
