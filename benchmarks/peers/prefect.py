"""Prefect's server on PostgreSQL, with a process that starts a process for each run."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.peers.comparison import Api, Load, Subject
from benchmarks.peers.programs import Programs, free_port, install
from benchmarks.postgresql import new_database
from benchmarks.servers import Follow, Server

NAME = "Prefect"
# Prefect 3.8.8 does not start with the newest FastAPI, which refuses an argument of Prefect's.
REQUIREMENTS = ("prefect==3.8.8", "fastapi==0.139.*")

_FLOWS = """
from prefect import flow, task


@task
def step():
    return {"words": 1}


@flow
def one():
    return step()


if __name__ == "__main__":  # A run's process imports this file as well.
    one.serve("one", limit=16)
"""
_SILENT = {"DO_NOT_TRACK": "1", "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}


@contextmanager
def running(folder: Path, server: str) -> Iterator[Subject]:
    """Runs the server, and a process that executes the runs of one deployment; those of another are only recorded.

    Prefect has a database of its own on a PostgreSQL server, as it recommends: on SQLite it answers most of 16 starts
    at once 503.
    """
    with new_database(server) as url:
        yield from _running(folder, url)


def _running(folder: Path, database: str) -> Iterator[Subject]:
    port = free_port()
    variables = {
        "PREFECT_HOME": str(folder),
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": database.replace("postgresql:", "postgresql+asyncpg:"),
        "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
        # Prefect's default is ten; the least is one.
        "PREFECT_RUNNER_POLL_FREQUENCY": "1",
        **_SILENT,
    }
    programs = Programs(install("prefect", REQUIREMENTS), folder, variables)
    (folder / "flows.py").write_text(_FLOWS)
    with ExitStack() as stack:
        address = ("--host", "127.0.0.1", "--port", str(port), "--no-ui")
        api_server = programs.start(stack, "prefect", "server", "start", *address)
        api = Api(port)
        programs.await_answer(lambda: api.call("GET", "/api/health"))
        runner = programs.start(stack, "python", "flows.py")
        one = programs.await_answer(lambda: api.call("GET", "/api/deployments/name/one/one"))
        parked = api.call("POST", "/api/deployments/", {"name": "parked", "flow_id": one["flow_id"]})
        starts, ones = (f"/api/deployments/{each['id']}/create_flow_run" for each in (parked, one))
        for _ in range(20):
            run = api.call("POST", starts, {})["id"]
        follow = Follow(
            [api.get("/api/flow_runs/{{id}}")], '"state_type":"COMPLETED"', '"state_type":"FAILED"', most=25
        )
        yield Subject(
            NAME,
            Server(api_server, port, behind=(runner,)),
            starts=Load(lambda: [api.post(starts, {})], 201),
            run=Load(lambda: [api.get(f"/api/flow_runs/{run}")]),
            runs=Load(lambda: [api.post("/api/flow_runs/filter", {"limit": 20, "sort": "START_TIME_DESC"})]),
            one_step=Load(lambda: [api.post(ones, {})], 201, follow),
        )
