"""Parts are replaced one by one under steady callers, without a failed call."""

from contextlib import ExitStack

from tests.support.deployment import Deployment
from tests.support.part import Part
from tests.support.poll import until
from tests.support.ports import reserved_port
from tests.support.steady import Steady

PATHS = ("/me", "/runs", "/workflows", "/health")


def go_on(steady: Steady) -> None:
    answered = steady.answered
    until(lambda: steady.answered > answered + 100, "more answers")


def stop(edge: Part, steady: Steady) -> None:
    """Stops an edge, and waits until a caller of it has gone to the other."""
    refused = steady.refused
    edge.stop()
    until(lambda: steady.refused > refused, "a caller that goes to the other edge")


def test_edges_are_replaced_under_steady_callers(deployment: Deployment) -> None:
    backend = deployment.backend()
    admin = deployment.admin(backend)
    edges = [deployment.edge(backend) for _ in range(2)]
    key = admin.create_key()
    callers = [deployment.same_caller(edge, key) for edge in edges]
    with Steady.calling(callers, PATHS) as steady:
        for place, edge in enumerate(edges):
            go_on(steady)
            stop(edge, steady)
            go_on(steady)
            edge.start()
            callers[place] = deployment.same_caller(edge, key)
        go_on(steady)
    assert steady.failures == []


def test_backends_are_replaced_under_steady_callers(deployment: Deployment) -> None:
    with ExitStack() as ports:
        places = [f"127.0.0.1:{ports.enter_context(reserved_port())}" for _ in range(2)]
        backends = [deployment.backend(place) for place in places]
        admin = deployment.admin(backends[1])
        flow = admin.apply_test_workflows()["Park"]
        caller = deployment.caller(deployment.edge(*backends), admin, max_concurrent_runs=100)
        starts = 0
        with Steady.calling([caller], PATHS) as steady:
            for backend in backends:
                go_on(steady)
                backend.stop()
                go_on(steady)
                # Not one backend in turn, but all that there is.
                for _ in range(10):
                    caller.started(flow)
                    starts += 1
                backend.start()
            go_on(steady)
        assert steady.failures == []
        assert caller.get("/me").json()["active_runs"] == starts
