"""Every combination of filters reads about as many rows as it lists, however many runs there are."""

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import combinations, islice, product
from typing import Any, NamedTuple

import psycopg
import pytest
from sqlalchemy import Engine, create_engine, insert
from sqlalchemy.pool import StaticPool

from backend.common.states import RUN_IN_FLIGHT, RUN_TERMINAL, RUN_TRANSITIONS
from backend.services.runs import list_sql
from backend.services.runs.rules import RunFilters
from backend.storage.database import DriverCursor, Tx
from backend.storage.dialects.postgresql.connection import engine_of
from backend.storage.dialects.sqlite.database_file import Dialect
from backend.storage.tables.metadata import METADATA
from backend.storage.tables.runs import runs
from contract.fields import default_value
from tests.support.plans import plans_of
from tests.support.postgresql import Postgresql
from workflow_api.v1 import runs_pb2

KEYS = ("key_pairs", "key_singles", "key_other")
LIMIT = 3
_COMMON = {
    "workflow_name": "Any",
    "version": 1,
    "triggered_by": "api",
    "labels": "{}",
    "steps_total": 1,
    "steps_completed": 1,
    "steps_failed": 0,
    "steps_skipped": 0,
    "approvals_pending": 0,
    "outputs_count": 0,
    "warnings": "[]",
    "pii_policy": "{}",
    "redaction_state": "none",
}
# Of each three of (workflow, status, reference) that are asked for, the newest runs have at most two, or at most one.
_LURES: dict[str, list[tuple[str, str, str | None]]] = {
    "key_pairs": [("wf_a", "failed", "other"), ("wf_a", "completed", "same"), ("wf_b", "failed", "same")],
    "key_singles": [("wf_a", "completed", "other"), ("wf_b", "failed", None), ("wf_b", "completed", "same")],
    "key_other": [("wf_c", "cancelled", None)],
}


class Scale(NamedTuple):
    """A database with many finished runs; `read` gives what was read and how many rows were looked at for it."""

    rows: Sequence[Mapping[str, Any]]
    read: Callable[[Callable[[Tx], list[Any]]], tuple[list[Any], int]]


def adversarial_runs(number: int) -> list[dict[str, Any]]:
    """A few runs that match everything are the oldest; then come runs that match a part; some are in flight."""
    shapes: list[tuple[str, str, str, str | None]] = [
        (key, "wf_a", status, "same") for key in KEYS[:2] for status in ("failed", "completed", "cancelled")
    ]
    for index in range(number):
        key = KEYS[index % len(KEYS)]
        shapes.append((key, *_LURES[key][index // len(KEYS) % len(_LURES[key])]))
    shapes += [(key, "wf_a", status, "same") for key in KEYS for status in RUN_IN_FLIGHT]
    return [
        _COMMON
        | {
            "run_id": f"run_{index:08}",
            "key_id": key,
            "workflow_id": workflow,
            "status": status,
            "client_reference": reference,
            # Some within the same millisecond.
            "created_at": 1_000_000 + index // 2,
            "finished_at": 2_000_000 if status in RUN_TERMINAL else None,
        }
        for index, (key, workflow, status, reference) in enumerate(shapes)
    ]


def _fill(engine: Engine, number: int) -> list[dict[str, Any]]:
    METADATA.create_all(engine)
    rows = adversarial_runs(number)
    with engine.begin() as connection:
        connection.execute(insert(runs), rows)
    return rows


class ExplainingConnection:
    """A connection that adds up the rows that PostgreSQL looked at, and the pages that it read for them."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.rows = 0
        self.pages = 0

    def execute(self, text: str, arguments: Sequence[object] = (), /) -> DriverCursor:
        explained = self._connection.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {text}", arguments).fetchone()[0]
        plan = json.loads(explained) if isinstance(explained, str) else explained
        self.rows += _rows(plan[0]["Plan"])
        self.pages += plan[0]["Plan"]["Shared Hit Blocks"] + plan[0]["Plan"]["Shared Read Blocks"]
        cursor: DriverCursor = self._connection.execute(text, arguments)
        return cursor

    def cursor(self) -> DriverCursor:
        raise NotImplementedError


def _rows(node: dict[str, Any]) -> int:
    children = sum(_rows(child) for child in node.get("Plans", ()))
    if "Relation Name" not in node and "Index Name" not in node:
        return children
    each = node["Actual Rows"] + node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
    return children + int(each * node["Actual Loops"])


def _sqlite(number: int) -> Iterator[Scale]:
    engine = create_engine("sqlite://", poolclass=StaticPool)
    rows = _fill(engine, number)
    raw = engine.raw_connection()
    connection: sqlite3.Connection = raw.driver_connection  # type: ignore[assignment]
    tx = Tx(connection, Dialect(paramstyle="qmark"))

    def read(work: Callable[[Tx], list[Any]]) -> tuple[list[Any], int]:
        """Counts steps of SQLite's virtual machine: about 40 for each row that is given out."""
        steps = 0

        def count() -> None:
            nonlocal steps
            steps += 1

        connection.set_progress_handler(count, 40)
        found = work(tx)
        connection.set_progress_handler(None, 40)
        return found, steps

    yield Scale(rows, read)
    raw.close()
    engine.dispose()


def _postgresql(server: Postgresql, number: int) -> Iterator[Scale]:
    from sqlalchemy.dialects.postgresql.psycopg import dialect

    with server.database() as url:
        engine = engine_of(url)
        rows = _fill(engine, number)
        engine.dispose()
        with closing(psycopg.connect(url, autocommit=True, cursor_factory=psycopg.RawCursor)) as connection:
            connection.execute("VACUUM ANALYZE runs")
            named = dialect(paramstyle="numeric_dollar")  # type: ignore[no-untyped-call]

            def read(work: Callable[[Tx], list[Any]]) -> tuple[list[Any], int]:
                explained = ExplainingConnection(connection)
                return work(Tx(explained, named)), explained.rows

            yield Scale(rows, read)


def scale(request: pytest.FixtureRequest, number: int) -> Iterator[Scale]:
    if request.param == "sqlite":
        yield from _sqlite(number)
    else:
        yield from _postgresql(request.getfixturevalue("postgresql_server"), number)


DATABASES = ["sqlite", "postgresql"]


@pytest.fixture(scope="module", params=DATABASES)
def large(request: pytest.FixtureRequest) -> Iterator[Scale]:
    yield from scale(request, 6_000)


FILTERS: list[dict[str, Any]] = [
    {"statuses": ("failed",)},
    {"workflow_id": "wf_a"},
    {"client_reference": "same"},
    {"after_ms": 1_000_001},
    {"before_ms": 1_004_000},
]
COMBINATIONS = [
    {name: value for each in chosen for name, value in each.items()}
    for number in range(len(FILTERS) + 1)
    for chosen in combinations(FILTERS, number)
]
POSITION = (1_002_000, "run_00004001")
SEVERAL = ("cancelled", "failed", "running")


def expected(given: Scale, key: str | None, filters: RunFilters, after: tuple[int, str] | None) -> list[str]:
    equal = filters.equalities() | ({"key_id": key} if key else {})
    found = (
        row["run_id"]
        # The last was created last.
        for row in (given.rows if filters.oldest_first else reversed(given.rows))
        if all(row[name] == value for name, value in equal.items())
        and (not filters.statuses or row["status"] in filters.statuses)
        and (filters.after_ms is None or row["created_at"] > filters.after_ms)
        and (filters.before_ms is None or row["created_at"] < filters.before_ms)
        and (after is None or (after < (row["created_at"], row["run_id"])) == filters.oldest_first)
        and (after is None or (row["created_at"], row["run_id"]) != after)
    )
    return list(islice(found, LIMIT))


def cases() -> Iterator[tuple[str | None, RunFilters, tuple[int, str] | None]]:
    for index, (chosen, key) in enumerate(product(COMBINATIONS, (*KEYS, None))):
        after = POSITION if index % 2 else None
        yield key, RunFilters(**chosen), after
        yield key, RunFilters(**chosen, oldest_first=True), after
        if "statuses" in chosen:
            yield key, RunFilters(**chosen | {"statuses": SEVERAL}), None if after else POSITION


def test_every_combination_lists_its_newest_and_looks_at_few_others(large: Scale) -> None:
    # A page of each status and, where the key is open, of each key and workflow; and what the key has in flight.
    most_of_key = len(RUN_TRANSITIONS) * (LIMIT + 1) + len(RUN_IN_FLIGHT) + 10
    for key, filters, after in cases():
        rows, visited = large.read(lambda tx: list_sql.page(tx, key, filters, after, LIMIT))  # noqa: B023 - at once
        assert [row.run_id for row in rows] == expected(large, key, filters, after), (key, filters, after)
        assert visited <= most_of_key * (1 if key else len(KEYS) * 2), (key, filters, after)


@pytest.mark.parametrize(
    "chosen",
    [
        {"statuses": ("failed",), "after_ms": 9_000_000},
        {"workflow_id": "wf_none"},
        {"after_ms": 9_000_000},
        {"before_ms": 9_000, "oldest_first": True},
    ],
)
def test_on_postgresql_a_list_reads_nothing_behind_its_bounds(
    postgresql_server: Postgresql, chosen: dict[str, Any]
) -> None:
    from sqlalchemy.dialects.postgresql.psycopg import dialect

    with postgresql_server.database() as url:
        engine = engine_of(url)
        _fill(engine, 6_000)
        engine.dispose()
        with closing(psycopg.connect(url, autocommit=True, cursor_factory=psycopg.RawCursor)) as connection:
            connection.execute("VACUUM ANALYZE runs")
            explained = ExplainingConnection(connection)
            tx = Tx(explained, dialect(paramstyle="numeric_dollar"))  # type: ignore[no-untyped-call]
            assert list_sql.page(tx, "key_pairs", RunFilters(**chosen), None, LIMIT) == []
    # Of each status, from the root of an index to a leaf.
    assert explained.pages <= 3 * len(RUN_TRANSITIONS)


@pytest.mark.parametrize(
    ("equal", "index"),
    [
        ((), "ix_runs_finished"),
        (("workflow_id",), "ix_runs_finished_of_workflow"),
        (("workflow_id", "client_reference"), "ix_runs_finished_of_reference"),
    ],
)
def test_statuses_are_ranges_of_indexes_in_the_order_of_the_list(equal: tuple[str, ...], index: str) -> None:
    chosen: dict[str, Any] = dict.fromkeys(equal, "a")
    filters = RunFilters(statuses=tuple(RUN_TRANSITIONS), **chosen)
    [plan] = plans_of(lambda tx: list_sql.page(tx, "ak_1", filters, None, LIMIT))
    used = [step.split(" (")[0] for step in plan if "runs" in step]
    in_flight, finished = "SEARCH runs USING INDEX ix_runs_in_flight", f"SEARCH runs USING INDEX {index}"
    assert used == [finished if status in RUN_TERMINAL else in_flight for status in RUN_TRANSITIONS]
    assert not any("TEMP B-TREE" in step for step in plan)


def test_the_usual_page_is_the_default_limit_and_one_more() -> None:
    """PostgreSQL plans only that page once."""
    default = default_value(runs_pb2.ListRunsRequest.DESCRIPTOR.fields_by_name["page_size"])
    assert default + 1 == list_sql.USUAL_LIMIT
