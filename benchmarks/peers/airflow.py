"""Airflow on PostgreSQL: its API server, its scheduler and its processor of DAGs, with a process for each task."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from secrets import token_urlsafe

from benchmarks.peers.comparison import Api, Load, Subject
from benchmarks.peers.programs import Programs, free_port, install
from benchmarks.postgresql import new_database
from benchmarks.servers import Follow, Server

NAME = "Airflow"
REQUIREMENTS = ("apache-airflow==3.3.2", "psycopg2-binary==2.9.13", "asyncpg==0.32.0")

_DAGS = """
from airflow.sdk import dag, task


def one_step(name, paused):
    @dag(dag_id=name, schedule=None, is_paused_upon_creation=paused)
    def steps():
        @task
        def step():
            return {"words": 1}

        step()

    steps()


one_step("one", False)
one_step("parked", True)
"""


@contextmanager
def running(folder: Path, server: str) -> Iterator[Subject]:
    """Runs Airflow with two DAGs, one of them paused, whose runs are only recorded.

    It has a database of its own on a PostgreSQL server: on SQLite it answers most of 16 starts at once 500.
    """
    with new_database(server) as url:
        yield from _running(folder, url)


def _running(folder: Path, database: str) -> Iterator[Subject]:
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    variables = {
        "AIRFLOW_HOME": str(folder),
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__API__SECRET_KEY": token_urlsafe(32),
        "AIRFLOW__API_AUTH__JWT_SECRET": token_urlsafe(64),
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{address}/execution/",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": database.replace("postgresql:", "postgresql+psycopg2:"),
        # As many connections as the load uses at once; with Airflow's default of 15 some lists are answered 500.
        "AIRFLOW__DATABASE__SQL_ALCHEMY_POOL_SIZE": "16",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
    }
    programs = Programs(install("airflow", REQUIREMENTS), folder, variables)
    (folder / "dags").mkdir()
    (folder / "dags" / "one.py").write_text(_DAGS)
    programs.run("airflow", "db", "migrate")
    with ExitStack() as stack:
        api_server, *behind = (
            programs.start(stack, "airflow", part) for part in ("api-server", "scheduler", "dag-processor")
        )
        token = programs.await_answer(lambda: Api(port).call("GET", "/auth/token"))["access_token"]
        api = Api(port, {"Authorization": f"Bearer {token}"})
        for name in ("one", "parked"):
            programs.await_answer(partial(api.call, "GET", f"/api/v2/dags/{name}"))
        parked, ones = (f"/api/v2/dags/{name}/dagRuns" for name in ("parked", "one"))
        start = {"logical_date": None}
        for _ in range(20):
            run = api.call("POST", parked, start)["dag_run_id"]
        follow = Follow([api.get(f"{ones}/{{{{dag_run_id}}}}")], '"state":"success"', '"state":"failed"', most=25)
        yield Subject(
            NAME,
            Server(api_server, port, behind=tuple(behind)),
            starts=Load(lambda: [api.post(parked, start)]),
            run=Load(lambda: [api.get(f"{parked}/{run}")]),
            runs=Load(lambda: [api.get(f"{parked}?limit=20")]),
            one_step=Load(lambda: [api.post(ones, start)], follow=follow),
        )
