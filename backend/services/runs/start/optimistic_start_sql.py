"""SQL of an optimistic start: a guarded insert that writes the rows only if the facts are as expected.

It writes the same rows as the functions of `sql`, and contains no rules.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from backend.services.runs.start import sql
from backend.services.runs.start.new_run import NewRun
from backend.storage.statements import GuardedInsert, InsertedRows, SingleRoundTrip
from backend.storage.tables.keys import daily_usage
from backend.storage.tables.runs import idempotency_records, run_labels, run_traces, runs
from backend.storage.tables.segments import StepRow, segments, steps

_COUNTERS: Final = ("active_runs", "runs_started", "tokens_used", "cost_used_microusd")
_RECORD: Final = sql.RecordRow._fields
_START: Final = GuardedInsert(
    row=sql.FactsRow,
    query=sql.FACTS,
    equal=[name for name in sql.FactsRow._fields if name not in {*_COUNTERS, *_RECORD}],
    at_most=_COUNTERS,
    # An existing idempotency record prevents a second start.
    null=["fingerprint"],
    inserts={
        "record": InsertedRows(idempotency_records, idempotency_records.columns.keys()),
        "run": InsertedRows(runs, sql.RUN_COLUMNS),
        "step": InsertedRows(steps, StepRow._fields, many=True),
        "segment": InsertedRows(segments, sql.SEGMENT_COLUMNS),
        "usage": InsertedRows(daily_usage, daily_usage.columns.keys(), added="runs_started"),
    },
)

# A separate statement, because most runs have no label.
_LABELLED_START: Final = replace(
    _START, inserts={**_START.inserts, "label": InsertedRows(run_labels, run_labels.columns.keys(), many=True)}
)
_TRACES: Final = {"trace": InsertedRows(run_traces, run_traces.columns.keys())}
_TRACED_START: Final = replace(_START, inserts={**_START.inserts, **_TRACES})
_LABELLED_TRACED_START: Final = replace(_LABELLED_START, inserts={**_LABELLED_START.inserts, **_TRACES})


def start(
    single_round_trip: SingleRoundTrip,
    facts: sql.FactsRow,
    new: NewRun,
    record: Mapping[str, object],
    day: int,
    trace: tuple[str, str | None] | None,
    *,
    lock_key: str,
    claim: str,
) -> tuple[sql.FactsRow, bool]:
    """Inserts a run if the facts are as expected; returns the actual facts, and whether it was inserted.

    Raises as `SingleRoundTrip`.
    """
    labels = sql.label_rows(new.run)
    if trace is None:
        guarded, rows = _LABELLED_START if labels else _START, {}
    else:
        guarded = _LABELLED_TRACED_START if labels else _TRACED_START
        rows = {"trace": sql.trace_row(new.run.run_id, trace)}
    return single_round_trip(
        guarded,
        facts,
        {
            **rows,
            "record": record,
            "run": new.run._asdict(),
            "step": [step._asdict() for step in new.steps],
            "segment": new.segment._asdict(),
            "usage": {"key_id": record["key_id"], "day": day, "runs_started": 1},
            "label": labels,
        },
        lock_key=lock_key,
        claim=claim,
        of_key_id=record["key_id"],
        of_idempotency_key=record["idempotency_key"],
        of_day=day,
    )
