"""Compares lists and starts between a key with very many runs and a key with few."""

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, count
from pathlib import Path
from urllib.parse import urlencode

from sqlalchemy import Engine, create_engine, text

from benchmarks import servers
from benchmarks.servers import Server
from benchmarks.workload import Key, Workload

# Enough for every filtered list to fill its page.
FEW = 6_000
_REQUESTS = 20
_STARTS = 10
_DATABASE = "workflow-api.sqlite3"
_GROWN = {
    "run_id": "'run_' || :prefix || CAST(1000000000 + i AS TEXT)",
    "key_id": ":key_id",
    "workflow_id": "CASE i % 7 WHEN 0 THEN CAST(:second AS TEXT) ELSE CAST(:first AS TEXT) END",
    "status": "CASE WHEN i % 10 < 6 THEN 'completed' WHEN i % 10 < 9 THEN 'failed' ELSE 'cancelled' END",
    "client_reference": "'reference ' || CAST(i % 11 AS TEXT)",
    "created_at": "model.created_at - 1000 * (CAST(:number AS BIGINT) - i + 1)",
    "started_at": "model.created_at - 1000 * (CAST(:number AS BIGINT) - i + 1) + 100",
    "finished_at": "model.created_at - 1000 * (CAST(:number AS BIGINT) - i + 1) + 500",
}
_numbers = count()


def fill(engine: Engine, key_id: str, workflow_ids: Sequence[str], number: int) -> None:
    """Copies a finished run into a key many times, with varied statuses, workflows and references, one second apart."""
    with engine.begin() as connection:
        columns = list(connection.execute(text("SELECT * FROM runs LIMIT 1")).keys())
        chosen = ", ".join(_GROWN.get(column, f"model.{column}") for column in columns)
        connection.execute(
            text(
                f"INSERT INTO runs ({', '.join(columns)}) "  # noqa: S608 - our own columns
                "WITH RECURSIVE numbers(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM numbers WHERE i + 1 < :number) "
                f"SELECT {chosen} FROM numbers, "
                "(SELECT * FROM runs WHERE status = 'completed' ORDER BY created_at DESC LIMIT 1) AS model"
            ),
            {
                "prefix": key_id[-12:],
                "key_id": key_id,
                "first": workflow_ids[0],
                "second": workflow_ids[1],
                "number": number,
            },
        )
    if engine.dialect.name == "postgresql":
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("VACUUM ANALYZE runs"))


def _paths(workload: Workload, now: float) -> Iterator[str]:
    filters = [
        ("status", "failed"),
        ("workflow_id", workload.workflow_ids["Parked"]),
        ("client_reference", "reference 7"),
        ("created_after", _iso(now - 10 * 365 * 86_400)),
        ("created_before", _iso(now - 10)),
    ]
    yield "/runs?status=failed,cancelled,running"
    for number in range(len(filters) + 1):
        for chosen in combinations(filters, number):
            yield f"/runs?{urlencode(chosen)}".removesuffix("?")


def _iso(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _milliseconds(calls: Sequence[Callable[[], None]]) -> list[float]:
    times = []
    for call in calls:
        began = time.perf_counter()
        call()
        times.append((time.perf_counter() - began) * 1000)
    return times


def _line(name: str, rounds: int, few: Sequence[Callable[[], None]], many: Sequence[Callable[[], None]]) -> str:
    """Returns one row of the table: the medians of both keys, measured alternately, and their ratio."""
    small: list[float] = []
    large: list[float] = []
    for number in range(rounds):
        pair = ((small, few), (large, many))
        for measured, calls in pair if number % 2 else reversed(pair):
            measured.extend(_milliseconds(calls))
    one, other = statistics.median(small), statistics.median(large)
    return f"| {name} | {one:.2f} | {other:.2f} | {other / one:.2f} |"


def table(number: int, database: str | None, rounds: int) -> Iterator[str]:
    """Yields the rows of the table: lists with each combination of filters, and starts."""
    with tempfile.TemporaryDirectory() as folder:
        options = ["--data", folder]
        if database is not None:
            settings = Path(folder, "settings.toml")
            settings.write_text(f'backend.database = "{database}"\n')
            options += ["--config", str(settings)]
        with servers.service(*options) as server:
            workload = Workload(server)
            few, many = workload.keys(2)
            workload.run(few, "One step", "completed")
            identifiers = [workload.call("GET", "/me", key)[1]["key_id"] for key in (few, many)]
            workflow_ids = workload.workflow_ids
        engine = _engine(folder, database)
        began = time.perf_counter()
        for key_id, size in zip(identifiers, (FEW, number), strict=True):
            fill(engine, key_id, [workflow_ids["One step"], workflow_ids["Parked"]], size)
        engine.dispose()
        yield f"{number:,} runs filled in within {time.perf_counter() - began:.0f} s, beside a key with {FEW}"
        with servers.service(*options) as server:
            yield from _measured(server, few, many, rounds)


def _engine(folder: str, database: str | None) -> Engine:
    if database is None:
        return create_engine(f"sqlite:///{Path(folder, _DATABASE)}")
    from backend.storage.dialects.postgresql.connection import engine_of

    return engine_of(database)


def _measured(server: Server, few: Key, many: Key, rounds: int) -> Iterator[str]:
    workload = Workload(server)
    workload.await_keys(few, many)
    yield "| call | few, ms | many, ms | ratio |"
    yield "|---|---|---|---|"

    def lists(key: Key, path: str) -> list[Callable[[], None]]:
        return [lambda: _expect(workload.call("GET", path, key)[0], 200)] * _REQUESTS

    def starts(key: Key) -> list[Callable[[], None]]:
        path = f"/workflows/{workload.workflow_ids['Parked']}/runs"

        def start() -> None:
            identified = {"Idempotency-Key": f"growth-{next(_numbers)}"}
            _expect(workload.call("POST", path, key, {"client_reference": "reference 7"}, **identified)[0], 201)

        return [start] * _STARTS

    for path in _paths(workload, time.time()):
        names = " ".join(name.partition("=")[0] for name in path.partition("?")[2].split("&"))
        yield _line(f"GET /runs {names}".strip(), rounds, lists(few, path), lists(many, path))
    yield _line("POST start", min(rounds, 100 // _STARTS - 1), starts(few), starts(many))


def _expect(status: int, expected: int) -> None:
    if status != expected:
        raise RuntimeError(f"expected {expected}, got {status}")
