"""LangGraph's development server: in memory, nothing durable, steps in its own process."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.peers.comparison import Api, Load, Subject
from benchmarks.peers.programs import Programs, free_port, install
from benchmarks.servers import Follow, Server

NAME = "LangGraph"
REQUIREMENTS = (
    "langgraph-cli==0.4.40",
    "langgraph-api==0.16.7",
    "langgraph-runtime-inmem==0.36.7",
    "langgraph==1.2.22",
)

_GRAPHS = """
from typing import TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt


class State(TypedDict, total=False):
    words: int


async def one(state):
    return {"words": 1}


async def review(state):
    interrupt("Wait")
    return {}


def graph(node):
    return StateGraph(State).add_node("node", node).add_edge(START, "node").add_edge("node", END).compile()


one_step, parked = graph(one), graph(review)
"""
_CONFIG = '{"dependencies": ["."], "graphs": {"one": "./graphs.py:one_step", "parked": "./graphs.py:parked"}}'
# Without a key nothing is traced; these variables also switch off analytics and the check for updates.
_SILENT = {
    "LANGSMITH_TRACING": "false",
    "LANGCHAIN_TRACING_V2": "false",
    "LANGGRAPH_CLI_NO_ANALYTICS": "1",
    "LANGGRAPH_NO_VERSION_CHECK": "true",
}
# As many jobs as the load starts at once; the default is fewer.
_JOBS = "16"


@contextmanager
def running(folder: Path, _server: str) -> Iterator[Subject]:
    """Runs the server with two graphs."""
    programs = Programs(install("langgraph", REQUIREMENTS), folder, _SILENT)
    (folder / "graphs.py").write_text(_GRAPHS)
    (folder / "langgraph.json").write_text(_CONFIG)
    with ExitStack() as stack:
        port = free_port()
        address = ("--host", "127.0.0.1", "--port", str(port))
        options = ("--no-browser", "--no-reload", "--n-jobs-per-worker", _JOBS, "--server-log-level", "WARNING")
        process = programs.start(stack, "langgraph", "dev", *address, *options)
        api = Api(port)
        programs.await_answer(lambda: api.call("GET", "/ok"))
        thread = api.call("POST", "/threads", {})["thread_id"]
        for _ in range(20):
            run = api.call("POST", f"/threads/{thread}/runs", _start("one"))["run_id"]
            api.call("GET", f"/threads/{thread}/runs/{run}/join")
        follow = Follow([api.get("/threads/{{thread_id}}/runs/{{run_id}}")], '"status":"success"', '"status":"error"')
        yield Subject(
            NAME,
            Server(process, port),
            starts=Load(lambda: [api.post("/runs", _start("parked"))]),
            run=Load(lambda: [api.get(f"/threads/{thread}/runs/{run}")]),
            runs=Load(lambda: [api.get(f"/threads/{thread}/runs?limit=20")]),
            one_step=Load(lambda: [api.post("/runs", _start("one"))], follow=follow),
        )


def _start(graph: str) -> dict[str, object]:
    """Returns the body of a start on a new thread, which is kept, as runs of the service are."""
    return {"assistant_id": graph, "input": {"words": 0}, "metadata": {"order": "7"}, "on_completion": "keep"}
