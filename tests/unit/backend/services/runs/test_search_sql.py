"""A search looks at few rows, however many runs there are."""

import pytest
from sqlalchemy import insert

from backend.services.runs import figures_sql, search_sql
from backend.services.runs.rules import RunFilters
from backend.storage.database import Tx
from backend.storage.statements import Command
from backend.storage.tables.runs import runs
from tests.support.plans import plans_of

FILTERS = [
    (None, RunFilters()),
    (None, RunFilters(oldest_first=True)),
    ("ak_1", RunFilters(workflow_id="wf_a", statuses=("failed", "running"))),
]


@pytest.mark.parametrize(("key_id", "filters"), FILTERS)
@pytest.mark.parametrize("name", [None, "team"])
def test_labels_are_a_range_of_their_index_in_the_order_of_the_list(
    key_id: str | None, filters: RunFilters, name: str | None
) -> None:
    plan, _ = plans_of(lambda tx: search_sql.by_label(tx, name, "a", key_id, filters, None, 2))
    assert any("SEARCH run_labels USING INDEX ix_run_labels_newest (value=?" in step for step in plan) or any(
        "SEARCH run_labels USING COVERING INDEX ix_run_labels_newest (value=?" in step for step in plan
    )
    assert not any(step.startswith("SCAN runs") for step in plan)


@pytest.mark.parametrize(("key_id", "filters"), FILTERS)
def test_ids_that_begin_so_are_a_range_of_the_primary_key(key_id: str | None, filters: RunFilters) -> None:
    [plan] = plans_of(lambda tx: search_sql.by_id(tx, "run_1", key_id, filters, None, 2))
    assert plan == ["SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id>? AND run_id<?)"]


def test_a_day_is_counted_from_an_index_alone() -> None:
    def counted(tx: Tx) -> None:
        values = {column.name: 1 for column in runs.columns if not column.nullable}
        values |= {"started_at": 1, "finished_at": 2}
        tx.run(Command(insert(runs), list(values)), **values)
        assert figures_sql.count_day(tx, 0, 0, 10).ended == 1

    _, *plans = plans_of(counted)
    assert len(plans) == 3
    for step, *_ in plans:
        assert step.startswith("SEARCH runs USING COVERING INDEX ix_runs_ended (finished_at>? AND finished_at<?)")


@pytest.mark.parametrize(
    ("workflow_ids", "step"),
    [
        (None, "SEARCH runs USING INDEX ix_runs_failed (finished_at>?)"),
        (["wf_a"], "SEARCH runs USING INDEX ix_runs_ended_of_workflow (workflow_id=? AND finished_at>?)"),
    ],
)
def test_failures_are_a_range_of_an_index_in_their_order(workflow_ids: list[str] | None, step: str) -> None:
    [plan] = plans_of(lambda tx: figures_sql.newest_failed(tx, 1, 10, workflow_ids))
    assert plan == [step]


@pytest.mark.parametrize(("key_id", "filters"), FILTERS)
@pytest.mark.parametrize("text", ["", "order 7", "team=a", "run_123456"])
def test_runs_of_a_starter_are_a_range_of_the_index_of_starts(
    key_id: str | None, filters: RunFilters, text: str
) -> None:
    plans = plans_of(lambda tx: search_sql.by_starter(tx, "user:ana", text, key_id, filters, None, 2))
    for plan in plans:
        assert any("INDEX ix_audit_records_starts (actor=? AND " in step for step in plan), plan
        assert not any(step.startswith("SCAN runs") for step in plan), plan


def test_known_costs_are_found_by_the_ids_of_their_runs() -> None:
    plans = plans_of(lambda tx: search_sql.known_costs(tx, [f"run_{number}" for number in range(150)]))
    assert len(plans) == 2
    assert all(
        plan[0].startswith("SEARCH model_usage USING INDEX sqlite_autoindex_model_usage_1 (run_id=") for plan in plans
    )
