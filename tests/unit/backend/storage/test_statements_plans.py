"""No SQL statement of any service scans a table that grows with use."""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest
from sqlalchemy import create_engine
from sqlalchemy.dialects.postgresql.psycopg import dialect as postgresql_dialect
from sqlalchemy.pool import StaticPool

import backend
from backend.services.keys import usage_sql
from backend.services.reviews import sql as reviews_sql
from backend.services.runs import approvals_sql
from backend.storage.dialects.postgresql.transaction import guarded_statement
from backend.storage.dialects.sqlite.database_file import Dialect
from backend.storage.statements import GuardedInsert, Statement
from backend.storage.tables.metadata import METADATA
from tests.support.plans import plans_of
from tests.support.postgresql import Postgresql

GROWING = frozenset({
    "approvals", "audit_records", "daily_usage", "events", "idempotency_records", "outputs", "publications",
    "run_labels", "runs", "segments", "step_log_parts", "step_logs", "step_transcript_parts",
    "step_transcripts", "steps", "upload_files", "uploads",
    "usage_batches", "usage_hours",
    "usage_records", "webhook_deliveries",
})  # fmt: skip
# These hold only what is going on: everything in them is to be looked at.
SCANNED_WHOLE = frozenset(
    {
        "ix_approvals_pending",
        "ix_publications_open",
        "ix_runs_in_flight",
        "ix_segments_open",
        "ix_webhook_deliveries_pending",
    }
)
# Their statements depend on the filters; tests beside `unit/backend/services/runs/test_list_sql.py` read their plans.
MADE_WHEN_CALLED = {"backend.services.runs.list_sql", "backend.services.runs.search_sql"}
# Changes of a run's own parts.
UNTYPED = {
    f"backend.services.runs.lifecycle_sql.{name}"
    for name in ("_END_SEGMENTS", "_CANCEL_STEPS", "_CANCEL_WAITING_STEPS")
}
OF_ONE_DATABASE = {"backend.services.runs.start.optimistic_start_sql"}


def _statements_in(found: object) -> Iterator[Statement]:
    if isinstance(found, Statement):
        yield found
    elif isinstance(found, GuardedInsert):
        yield guarded_statement(found)
    elif isinstance(found, dict):
        for each in found.values():
            yield from _statements_in(each)
    elif isinstance(found, (tuple, list)):
        for each in found:
            yield from _statements_in(each)


def sql_modules() -> Iterator[str]:
    for module in pkgutil.walk_packages(backend.__path__, "backend."):
        if module.name.endswith((".sql", "_sql")) and module.name not in MADE_WHEN_CALLED:
            yield module.name


def statements() -> Iterator[tuple[str, Statement]]:
    for module in sql_modules():
        for name, value in vars(importlib.import_module(module)).items():
            for statement in _statements_in(value):
                yield f"{module}.{name}", statement


def test_the_statements_of_every_sql_module_are_found() -> None:
    assert {name.rpartition(".")[0] for name, _ in statements()} == set(sql_modules())


def test_on_sqlite_only_indexes_of_unfinished_work_are_scanned() -> None:
    engine = create_engine("sqlite://", poolclass=StaticPool)
    METADATA.create_all(engine)
    dialect = Dialect(paramstyle="qmark")
    scanned = {}
    with closing(engine.raw_connection()) as raw:
        for name, statement in statements():
            if name.rpartition(".")[0] in OF_ONE_DATABASE:
                continue
            text = statement.text(dialect)
            arguments = [1] * text.count("?")
            plan = [row[3] for row in raw.driver_connection.execute(f"EXPLAIN QUERY PLAN {text}", arguments)]  # type: ignore[union-attr]
            scans = [re.fullmatch(r"SCAN (\w+)(?: USING (?:COVERING )?INDEX (\w+))?", step) for step in plan]
            if bad := [scan[0] for scan in scans if scan and scan[1] in GROWING and scan[2] not in SCANNED_WHOLE]:
                scanned[name] = bad
    engine.dispose()
    assert scanned == {}


NOBODY = approvals_sql.Onlooker("", 0)


MANY_WORKFLOWS = frozenset(f"wf_{number}" for number in range(50))


@pytest.mark.parametrize("by_deadline", [False, True])
@pytest.mark.parametrize("others", [{}, {"workflow_ids": MANY_WORKFLOWS}])
def test_the_inbox_of_many_workflows_takes_one_statement_that_ends_with_the_page(
    others: dict[str, Any], by_deadline: bool
) -> None:
    [steps] = plans_of(
        lambda tx: approvals_sql.pending(tx, NOBODY, after=0, after_id="", limit=1, by_deadline=by_deadline, **others)
    )
    index = "ix_approvals_by_deadline" if by_deadline else "ix_approvals_pending"
    assert any(f"approvals USING INDEX {index}" in step for step in steps), steps


@pytest.mark.parametrize("of", [None, MANY_WORKFLOWS])
def test_what_waits_is_counted_by_one_statement_each_for_the_total_and_the_gates(of: frozenset[str] | None) -> None:
    assert len(plans_of(lambda tx: reviews_sql.pending_total(tx, of))) == 1
    assert len(plans_of(lambda tx: reviews_sql.gates(tx, 200, of))) == 1


@pytest.mark.parametrize("others", [{}, {"workflow_ids": ["a"]}, {"step": "a"}, {"workflow_ids": ["a"], "step": "a"}])
@pytest.mark.parametrize("by_deadline", [False, True])
def test_the_pending_approvals_of_a_run_are_found_among_those_of_the_run(
    others: dict[str, Any], by_deadline: bool
) -> None:
    found = {"after": 0, "after_id": "", "limit": 1, "run_id": "a", "by_deadline": by_deadline}
    [steps] = plans_of(lambda tx: approvals_sql.pending(tx, NOBODY, **found, **others))  # type: ignore[arg-type]
    assert any("approvals USING INDEX ix_approvals_run_id" in step for step in steps), steps


def test_the_inbox_by_deadline_is_read_in_the_order_of_an_index() -> None:
    [steps] = plans_of(lambda tx: approvals_sql.pending(tx, NOBODY, after=0, after_id="", limit=1, by_deadline=True))
    assert any("SEARCH approvals USING INDEX ix_approvals_by_deadline (<expr>>?" in step for step in steps), steps
    assert not any("TEMP B-TREE" in step for step in steps), steps


def test_calls_of_keys_are_added_up_from_those_of_the_keys_alone() -> None:
    [steps] = plans_of(lambda tx: usage_sql.of_keys(tx, ["ak_1", "ak_2"], since=0, until=1))
    index = "usage_hours USING INDEX ix_usage_hours_key_id_hour (key_id=? AND hour>? AND hour<?)"
    assert any(index in step for step in steps), steps


def test_on_postgresql_no_growing_table_has_to_be_scanned(postgresql_server: Postgresql) -> None:
    dialect = postgresql_dialect(paramstyle="numeric_dollar")  # type: ignore[no-untyped-call]
    scanned, untyped = {}, []
    with psycopg.connect(postgresql_server.shared, autocommit=True) as connection:
        connection.execute("SET plan_cache_mode = force_generic_plan")
        # Few rows are read by a scan all the same where an index would do.
        connection.execute("SET enable_seqscan = off")
        for number, (name, statement) in enumerate(statements()):
            text = statement.text(dialect)
            try:
                connection.execute(f"PREPARE plan_{number} AS {text}".encode())
            except psycopg.errors.DatatypeMismatch:
                # Its parameters have the types of their values.
                untyped.append(name)
                continue
            most = max([0, *(int(one) for one in re.findall(r"\$(\d+)", text))])
            given = f"({', '.join(['NULL'] * most)})" if most else ""
            plan = [row[0] for row in connection.execute(f"EXPLAIN EXECUTE plan_{number}{given}".encode())]
            scans = [re.search(r"Seq Scan on (\w+)", step) for step in plan]
            if bad := [scan[0] for scan in scans if scan and scan[1] in GROWING]:
                scanned[name] = bad
    assert (scanned, set(untyped)) == ({}, UNTYPED)
