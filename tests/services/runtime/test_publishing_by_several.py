"""Publications that several processes carry out over one database. (contract 26)"""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from backend.common.secrets import Secrets
from backend.resources.graphs.graphs import Graphs
from backend.resources.models import Models
from backend.resources.redaction.confined_redactor import ConfinedRedactor
from backend.runtime.bootstrap import new_publisher
from backend.runtime.publishing import Publisher, sql
from backend.settings import BackendSettings
from backend.storage.database import DatabaseUnavailableError
from tests.services.runtime.conftest import RuntimeWorld
from tests.services.runtime.test_publishing import ABSOLUTE, apply, remote, run, server, states, warnings
from tests.support.poll import until
from tests.support.sparql_server import SparqlServer

__all__ = ["server"]

INSERT = "INSERT DATA"


@pytest.fixture
def new_process(idle_world: RuntimeWorld, tmp_path: Path) -> Iterator[Callable[[], Publisher]]:
    """Makes publishers of other processes, whose rounds a test begins."""
    publishers: list[Publisher] = []

    def new() -> Publisher:
        data = tmp_path / f"process-{len(publishers)}"
        given = BackendSettings(data=data)
        redactor = ConfinedRedactor(
            Models(given.secrets, given.models), scratch=data / "redaction", limits=given.redaction
        )
        graphs = Graphs(None, Secrets())
        publishers.append(new_publisher(given, idle_world.services, idle_world.objects, graphs, redactor))
        return publishers[-1]

    yield new
    for publisher in publishers:
        publisher.stop()


@pytest.fixture
def late(idle_world: RuntimeWorld, server: SparqlServer) -> str:
    """A run whose publication is late, as its process ended before the store took it."""
    idle_world.local_runtime.start()
    apply(idle_world, remote(server))
    server.status = 503
    run_id = run(idle_world, {"wait_seconds": 0}, input_text=ABSOLUTE)
    assert len(warnings(idle_world, run_id)) == 1
    until(lambda: [row.attempts for row in idle_world.dump("publications")] == [1], "an attempt")
    idle_world.local_runtime.stop()
    idle_world.clock.advance(seconds=1)
    server.status = None
    server.requests.clear()
    return run_id


def begun(publisher: Publisher, server: SparqlServer) -> None:
    """Lets the publisher begin an update, which the server holds."""
    count = len(server.requests)
    server.held = INSERT
    server.open.clear()
    publisher.round()
    until(lambda: len(server.requests) == count + 1, "an update")


def erase(world: RuntimeWorld, run_id: str, by: Publisher) -> None:
    world.erase(run_id)
    by.remove(run_id)


def until_removed(world: RuntimeWorld, by: Publisher) -> None:
    def removed() -> bool:
        by.round()
        return states(world) == []

    until(removed, "the removal")


def test_a_publication_is_carried_out_by_one_process_at_a_time(
    idle_world: RuntimeWorld, server: SparqlServer, new_process: Callable[[], Publisher], late: str
) -> None:
    first, second = new_process(), new_process()
    begun(first, server)
    second.round()
    assert not second.publishing
    server.open.set()
    until(lambda: states(idle_world) == ["landed"], "the publication")
    assert len(server.requests) == 1
    assert server.sizes() == {f"urn:workflow-api:run:{late}": 1}


def test_a_publication_that_landed_twice_stays_in_its_graph(
    idle_world: RuntimeWorld, server: SparqlServer, new_process: Callable[[], Publisher], late: str
) -> None:
    suspended, other = new_process(), new_process()
    [row] = idle_world.dump("publications")
    watches = [publisher.watch(late, row.graph_id) for publisher in (suspended, other)]
    begun(suspended, server)
    idle_world.clock.advance(seconds=360)
    begun(other, server)
    server.open.set()
    for watch in watches:
        watch.outcome.result(60)
    new_process().round()
    assert states(idle_world) == ["kept"]
    assert server.sizes() == {f"urn:workflow-api:run:{late}": 1}


def test_an_erasure_during_an_update_of_another_process_leaves_nothing_in_the_graph(
    idle_world: RuntimeWorld, server: SparqlServer, new_process: Callable[[], Publisher], late: str
) -> None:
    first, second = new_process(), new_process()
    begun(first, server)
    erase(idle_world, late, second)
    second.round()
    second.stop()
    assert states(idle_world) == ["removing"]
    server.open.set()
    until_removed(idle_world, new_process())
    assert server.sizes() == {}


def test_an_update_that_lands_after_the_removal_is_removed_again(
    idle_world: RuntimeWorld, server: SparqlServer, new_process: Callable[[], Publisher], late: str
) -> None:
    suspended, other = new_process(), new_process()
    begun(suspended, server)
    erase(idle_world, late, other)
    idle_world.clock.advance(seconds=360)
    until_removed(idle_world, other)
    server.open.set()
    until(lambda: states(idle_world) == ["removing"], "the order to remove it again")
    assert server.sizes() == {f"urn:workflow-api:run:{late}": 1}
    until_removed(idle_world, other)
    assert server.sizes() == {}


def test_a_removal_waits_while_the_store_may_carry_out_an_update_of_a_process_that_ended(
    idle_world: RuntimeWorld, server: SparqlServer, new_process: Callable[[], Publisher], late: str
) -> None:
    ended, other = new_process(), new_process()
    begun(ended, server)
    ended.stop()
    erase(idle_world, late, other)
    other.round()
    assert states(idle_world) == ["removing"]
    server.open.set()
    until(server.sizes, "the update")
    idle_world.clock.advance(seconds=360)
    until_removed(idle_world, other)
    assert server.sizes() == {}


def test_a_publication_whose_process_ended_in_an_update_is_carried_out_by_another(
    idle_world: RuntimeWorld, server: SparqlServer, new_process: Callable[[], Publisher], late: str
) -> None:
    ended, other = new_process(), new_process()
    begun(ended, server)
    ended.stop()
    server.open.set()
    idle_world.clock.advance(seconds=360)
    other.round()
    until(lambda: states(idle_world) == ["landed"], "the publication")
    assert server.sizes() == {f"urn:workflow-api:run:{late}": 1}


def test_a_removal_goes_on_in_another_process_after_one_that_failed(
    idle_world: RuntimeWorld, server: SparqlServer, new_process: Callable[[], Publisher], late: str
) -> None:
    first, second = new_process(), new_process()
    first.round()
    until(lambda: states(idle_world) == ["landed"], "the publication")
    erase(idle_world, late, first)
    server.status = 500
    first.round()
    until(lambda: [row.attempts for row in idle_world.dump("publications")] == [1], "an attempt")
    server.status = None
    idle_world.clock.advance(seconds=1)
    until_removed(idle_world, second)
    assert server.sizes() == {}


@pytest.mark.parametrize("failing", ["delete_removed", "postpone"])
def test_a_process_removes_again_after_the_outcome_of_its_removal_could_not_be_written(
    idle_world: RuntimeWorld,
    server: SparqlServer,
    new_process: Callable[[], Publisher],
    late: str,
    monkeypatch: pytest.MonkeyPatch,
    failing: str,
) -> None:
    publisher = new_process()
    publisher.round()
    until(lambda: states(idle_world) == ["landed"], "the publication")
    erase(idle_world, late, publisher)
    failed = threading.Event()

    def away(*_: object) -> None:
        failed.set()
        raise DatabaseUnavailableError

    server.status = 500 if failing == "postpone" else None
    with monkeypatch.context() as fault:
        fault.setattr(sql, failing, away)
        publisher.round()
        assert failed.wait(60)
        until(lambda: not publisher.removing, "the end of the attempt")
    server.status = None
    assert states(idle_world) == ["removing"]
    until_removed(idle_world, publisher)
    assert server.sizes() == {}
