"""Judges the result of a run by its schema and stores it, until the segment is stopped."""

import asyncio

from backend import json_text
from backend.json_text import JsonText
from backend.runtime.execution import retries
from backend.runtime.execution.claim import ClaimedSegment
from backend.runtime.execution.segment_context import SegmentContext
from backend.runtime.execution.stop_signal import StoppedError, StopSignal
from backend.runtime.promotion.result import (
    SUMMARY,
    StoredResult,
    carried_summary,
    inline_result,
    make_result,
    may_carry_summary,
    result_in_row,
)
from backend.runtime.promotion.step_outputs import discard


async def store_result(
    context: SegmentContext, claimed: ClaimedSegment, stop_signal: StopSignal, value: str
) -> StoredResult:
    """Judges and stores a result, JSON text.

    Raises:
        StoppedError: the segment is to stop; neither goes on.
        JudgeUnavailableError: it could not be judged.
        OSError: the store did not take it.
    """
    if claimed.terms.result_schema is None and not may_carry_summary(value) and _fits_row(context, claimed, value):
        return result_in_row(claimed.run_id, value)
    storing = asyncio.create_task(_judge_and_store(context, claimed, value))
    try:
        return await stop_signal.result_of(storing)
    except StoppedError:
        storing.cancel()
        # Once the run is closed it may be erased, and nothing may be stored for it after that.
        await asyncio.wait({storing})
        raise


def _fits_row(context: SegmentContext, claimed: ClaimedSegment, value: str) -> bool:
    """Returns whether the run's row has all of its `result.json`.

    Processes that share a database may be of an earlier version, which reads results from objects alone. The result of
    a run that publishes is an output before the run is closed, and stays one if the run is then cancelled or fails.
    """
    shown = claimed.redaction is None and not claimed.terms.publish
    return shown and not context.database.remote and inline_result(value) is not None


async def _judge_and_store(context: SegmentContext, claimed: ClaimedSegment, value: str) -> StoredResult:
    schema, mismatch = claimed.terms.result_schema, None
    if schema is not None:
        mismatch = await retries.RESOURCE.run(
            lambda: context.in_halting_thread(
                lambda halt: context.schemas.mismatch(schema, value, "result", owner=claimed.key_id, halt=halt)
            ),
            f"Judging the result of run {claimed.run_id}",
        )
    summary = await _summary(context, claimed, value)
    if mismatch is None and _fits_row(context, claimed, value):
        return result_in_row(claimed.run_id, value, summary)
    return await retries.RESOURCE.run(
        lambda: context.in_halting_thread(
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
        lambda: context.in_halting_thread(
            lambda halt: context.schemas.member(value, SUMMARY, owner=claimed.key_id, halt=halt)
        ),
        f"Reading the result of run {claimed.run_id}",
    )
