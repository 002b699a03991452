"""The service in one process, with full durability and every check, as a peer sees it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from benchmarks import servers
from benchmarks.peers.comparison import Load, Subject
from benchmarks.servers import Follow
from benchmarks.workload import Key, Workload

# Keys for a second of load, enough that no key reaches its rate limit or its limit of runs in flight.
_KEYS_FOR_SECOND = 50
_STARTS_OF_KEY = 100


@contextmanager
def running(seconds: float) -> Iterator[Subject]:
    """Runs the service; every round of starts has keys of its own, because each run keeps a slot of its key."""
    with servers.service() as server:
        workload = Workload(server)
        number = max(4, int(seconds * _KEYS_FOR_SECOND))
        readers, listers = workload.keys(number), workload.keys(number // 2)
        finished = workload.fill(readers, "One step", "completed", 1)
        workload.fill(listers, "Parked", "waiting_for_approval", 20)
        # Cycled in the order of the starts, so that each start has the next key.
        follow = Follow([key.get("/runs/{{run_id}}") for key in readers], '"status":"completed"', '"status":"failed"')
        yield Subject(
            "service",
            server,
            starts=Load(_starts(workload, "Parked", lambda: workload.keys(number), language="fr"), 201),
            run=Load(lambda: [key.get(f"/runs/{run}") for key, run in zip(readers, finished, strict=True)]),
            runs=Load(lambda: [key.get("/runs") for key in listers]),
            one_step=Load(_starts(workload, "One step", lambda: readers), 201, follow),
        )


def _starts(
    workload: Workload, workflow: str, keys: Callable[[], Sequence[Key]], **parameters: str
) -> Callable[[], Sequence[str]]:
    workflow_id = workload.workflow_ids[workflow]

    def requests() -> list[str]:
        own = keys()
        return [key.start(workflow_id, **parameters) for _ in range(_STARTS_OF_KEY) for key in own]

    return requests
