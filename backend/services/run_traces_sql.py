"""SQL of the spans that started runs."""

from typing import Final, NamedTuple

from sqlalchemy import bindparam

from backend.storage.database import Tx
from backend.storage.statements import Query, select_row
from backend.storage.tables.runs import run_traces, runs
from backend.storage.tables.segments import segments
from telemetry.trace_context import TRACEPARENT, TRACESTATE


class RunTraceRow(NamedTuple):
    """The span that started a run, as W3C Trace Context."""

    traceparent: str
    tracestate: str | None


class SegmentTraceRow(NamedTuple):
    """Attributes of a segment's span, and the span that started its run."""

    run_id: str
    workflow_id: str
    ordinal: int
    created_at: int
    traceparent: str
    tracestate: str | None

    @property
    def carrier(self) -> dict[str, str]:
        """W3C Trace Context headers of the span that started the run."""
        return _carrier(self.traceparent, self.tracestate)


_OF_RUN: Final = Query(
    RunTraceRow, select_row(RunTraceRow, run_traces).where(run_traces.c.run_id == bindparam("of_run_id"))
)
_OF_SEGMENT: Final = Query(
    SegmentTraceRow,
    select_row(SegmentTraceRow, segments, run_traces, runs)
    .select_from(segments)
    .join(runs, runs.c.run_id == segments.c.run_id)
    .join(run_traces, run_traces.c.run_id == segments.c.run_id)
    .where(segments.c.segment_id == bindparam("of_segment_id")),
)


def carrier_of_run(tx: Tx, run_id: str) -> dict[str, str]:
    """Returns what makes work part of the trace of a run's start; empty where that was not recorded."""
    row = tx.first(_OF_RUN, of_run_id=run_id)
    return {} if row is None else _carrier(*row)


def of_segment(tx: Tx, segment_id: str) -> SegmentTraceRow | None:
    """Returns what the span of a segment is made of; None where its run's start was not recorded."""
    return tx.first(_OF_SEGMENT, of_segment_id=segment_id)


def _carrier(traceparent: str, tracestate: str | None) -> dict[str, str]:
    return {TRACEPARENT: traceparent} if tracestate is None else {TRACEPARENT: traceparent, TRACESTATE: tracestate}
