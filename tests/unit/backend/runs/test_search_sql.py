"""A search looks at few rows, however many runs there are."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from sqlalchemy import create_engine
from sqlalchemy.pool import StaticPool

from backend.runs import days_sql, search_sql
from backend.storage.dialects.sqlite.dialect import Dialect
from backend.storage.statements import Statement
from backend.storage.tables.metadata import METADATA


@pytest.fixture(scope="module")
def plan_of() -> Iterator[object]:
    engine = create_engine("sqlite://", poolclass=StaticPool)
    METADATA.create_all(engine)
    with closing(engine.raw_connection()) as raw:

        def plan(statement: Statement) -> list[str]:
            text = statement.text(Dialect(paramstyle="qmark"))
            rows = raw.driver_connection.execute(f"EXPLAIN QUERY PLAN {text}", [1] * text.count("?"))  # type: ignore[union-attr]
            return [row[3] for row in rows]

        yield plan
    engine.dispose()


FILTERS = [(frozenset(), ()), (frozenset({"key_id", "workflow_id"}), ("failed", "running"))]


@pytest.mark.parametrize(("equal", "statuses"), FILTERS)
@pytest.mark.parametrize("named", [False, True])
def test_labels_are_a_range_of_their_index_in_the_order_of_the_list(
    plan_of: object, equal: frozenset[str], statuses: tuple[str, ...], named: bool
) -> None:
    plan = plan_of(search_sql._by_label(equal, statuses, named))  # type: ignore[operator]
    assert any("SEARCH run_labels USING INDEX ix_run_labels_newest (value=?" in step for step in plan) or any(
        "SEARCH run_labels USING COVERING INDEX ix_run_labels_newest (value=?" in step for step in plan
    )
    assert not any(step.startswith("SCAN runs") for step in plan)


@pytest.mark.parametrize(("equal", "statuses"), FILTERS)
def test_ids_that_begin_so_are_a_range_of_the_primary_key(
    plan_of: object, equal: frozenset[str], statuses: tuple[str, ...]
) -> None:
    plan = plan_of(search_sql._by_id(equal, statuses))  # type: ignore[operator]
    assert plan == ["SEARCH runs USING INDEX sqlite_autoindex_runs_1 (run_id>? AND run_id<?)"]


def test_a_day_is_counted_from_an_index_alone(plan_of: object) -> None:
    for statement in (days_sql._COUNT, days_sql._NTH):
        (step, *_) = plan_of(statement)  # type: ignore[operator]
        assert step.startswith("SEARCH runs USING COVERING INDEX ix_runs_ended (finished_at>? AND finished_at<?)")
