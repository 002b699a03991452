"""Several edge processes on one address, under one parent that keeps them going."""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.support.admin import Admin
from tests.support.client import Caller, call
from tests.support.part import Part, address_of, refused
from tests.support.poll import until, within_one_minute
from tests.support.ports import answers
from tests.support.scrape import LISTEN, Scrape, scrape
from tests.support.wire import BASE, Address, Wire, request

pytestmark = pytest.mark.long

PROCESSES = 2


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Part]:
    folder = tmp_path_factory.mktemp("backend")
    with Part.started(folder, "backend", "--data", str(folder / "data"), "--grpc", "127.0.0.1:0") as backend:
        yield backend


@pytest.fixture
def admin(backend: Part) -> Iterator[Admin]:
    admin = Admin(backend.ready["grpc"])
    yield admin
    admin.close()


@contextmanager
def edges(folder: Path, backend: Part, redis_url: str, http: str = "127.0.0.1:0") -> Iterator[Part]:
    given = {"PROCESSES": str(PROCESSES), "REDIS_URL": "env:PLANT_REDIS"}
    variables = (
        {f"WORKFLOW_API_EDGE_{name}": value for name, value in given.items()} | LISTEN | {"PLANT_REDIS": redis_url}
    )
    command = ("edge", "--http", http, "--grpc", backend.ready["grpc"])
    with Part.started(folder, *command, variables=variables) as parent:
        yield parent


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, backend: Part, redis_url: str) -> Iterator[Part]:
    with edges(tmp_path_factory.mktemp("edges"), backend, redis_url) as parent:
        yield parent


@pytest.fixture
def own(tmp_path: Path, backend: Part, redis_url: str) -> Iterator[Part]:
    with edges(tmp_path / "edges", backend, redis_url) as parent:
        yield parent


def address(parent: Part) -> Address:
    return address_of(parent.ready["base_address"])


def workers(parent: Part) -> set[int]:
    return {int(pid) for pid in Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()}


def serving(pid: int) -> bool:
    """Whether a process exists and has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def sockets(pid: int) -> int:
    links = (path.readlink() for path in Path(f"/proc/{pid}/fd").iterdir())
    return sum(str(link).startswith("socket:") for link in links)


def healthy(at: Address) -> bool:
    return call(at, "GET", f"{BASE}/health").status == 200


def test_connections_are_spread_over_the_processes(shared: Part) -> None:
    before = {pid: sockets(pid) for pid in workers(shared)}
    assert len(before) == PROCESSES
    with ExitStack() as stack:
        for wire in [stack.enter_context(Wire(address(shared))) for _ in range(64)]:
            wire.send(request("GET", "/health"))
            assert wire.answer().status == 200
        added = {pid: sockets(pid) - before[pid] for pid in before}
    assert all(number > 0 for number in added.values()), added


def test_the_processes_share_one_limit(shared: Part, admin: Admin) -> None:
    limit = 8

    def attempt() -> list[int]:
        key = admin.create_key(rate_limit_rpm=limit)
        caller = Caller(address(shared), key.key_id, key.key, key.external_id)
        until(lambda: caller.get("/workflows", limit=0).status == 400, "the key to be known")
        statuses = [caller.get("/me").status for _ in range(200)]
        # A process that does not know the key yet counts nothing.
        return [status for status in statuses if status not in {401, 503}]

    statuses = within_one_minute(attempt)
    # Becoming known took one call.
    assert statuses == [200] * (limit - 1) + [429] * (len(statuses) - limit + 1)
    assert len(statuses) > 2 * limit


def requests_by_process(seen: Scrape) -> dict[str, float]:
    return {place: seen.value("http_requests_total", process=place) for place in ("0", "1")}


def test_each_process_has_its_own_series(own: Part) -> None:
    url = own.ready["metrics"]
    assert all(healthy(address(own)) for _ in range(64))
    before = scrape(url)
    requests = requests_by_process(before)
    assert sum(requests.values()) == before.value("http_requests_total") == 64
    assert all(number > 0 for number in requests.values())
    assert {before.value("build_info", part="edge", process=place) for place in requests} == {1}
    assert before.value("rate_limit_shared") == PROCESSES
    assert before.value("process_resident_memory_bytes", process="0") > 0
    os.kill(min(workers(own)), signal.SIGKILL)
    until(lambda: min(requests_by_process(scrape(url)).values()) == 0, "its successor, which begins at 0")
    until(
        lambda: max(requests_by_process(scrape(url)).values()) in requests.values(),
        "the counts of the process that still runs",
    )


def test_a_process_that_does_not_answer_is_left_out(own: Part) -> None:
    silent = min(workers(own))
    os.kill(silent, signal.SIGSTOP)
    try:
        assert scrape(own.ready["metrics"]).value("build_info") == PROCESSES - 1
    finally:
        os.kill(silent, signal.SIGCONT)
    until(lambda: scrape(own.ready["metrics"]).value("build_info") == PROCESSES, "its answer")


def test_a_process_that_died_is_replaced(own: Part) -> None:
    before = workers(own)
    first, second = before
    os.kill(first, signal.SIGKILL)
    until(lambda: first not in workers(own), "the end of the process")
    assert all(healthy(address(own)) for _ in range(32))
    until(lambda: len(workers(own)) == PROCESSES, "another process")
    assert "and is replaced" in own.log()
    os.kill(second, signal.SIGTERM)
    until(lambda: second not in workers(own), "the end of the process")
    until(lambda: answers(address(own)[1]), "the new process to serve")
    assert healthy(address(own))


def test_a_stop_ends_all_processes_once_their_calls_are_answered(own: Part) -> None:
    before = workers(own)
    body = b'{"reason": "none"}'
    head = request("POST", "/runs/x/cancel", ("Content-Length", str(len(body))))
    with ExitStack() as stack:
        wires = [stack.enter_context(Wire(address(own))) for _ in range(16)]
        for wire in wires:
            wire.send(head + body[:5])
        own.signal(signal.SIGTERM)
        until(lambda: not answers(address(own)[1]), "the end of listening")
        for wire in wires:
            wire.send(body[5:])
        answers_given = [wire.answer() for wire in wires]
    assert {answer.status for answer in answers_given} <= {401, 503}
    assert {answer.headers["Connection"] for answer in answers_given} == {"close"}
    assert own.ended() == 0
    assert not any(serving(pid) for pid in before)


def test_processes_end_with_their_parent(own: Part) -> None:
    before = workers(own)
    own.kill()
    until(lambda: not any(serving(pid) for pid in before), "the end of the processes")
    assert not answers(address(own)[1])


def test_an_address_shared_by_edge_processes_is_in_use(shared: Part, backend: Part) -> None:
    """Two services at one address would answer in turn."""
    http = "{}:{}".format(*address(shared))
    several = {"WORKFLOW_API_EDGE_PROCESSES": "2", "WORKFLOW_API_EDGE_REDIS_URL": "redis://127.0.0.1:1"}
    for variables in ({}, several):
        line = refused("edge", "--http", http, "--grpc", backend.ready["grpc"], variables=variables)
        assert line == f"The HTTP address {http} is in use by another process."


def test_a_process_that_cannot_start_says_why(tmp_path: Path) -> None:
    config = tmp_path / "settings.toml"
    config.write_text('[edge]\nprocesses = 2\nredis_url = "secret:redis"\n[secrets]\nredis = "env:PLANT_REDIS"\n')
    line = refused("edge", "--config", str(config), "--http", "127.0.0.1:0")
    assert line.startswith("The address of Redis cannot be read: the secret 'redis' is not set: what [secrets]")


def test_several_processes_need_redis() -> None:
    line = refused("edge", "--http", "127.0.0.1:0", variables={"WORKFLOW_API_EDGE_PROCESSES": "2"})
    assert line.startswith("edge.processes: must be 1, or edge.redis_url must name a Redis")


def test_serve_has_a_setting_of_its_own_for_its_edges(tmp_path: Path) -> None:
    variables = {"WORKFLOW_API_EDGE_PROCESSES": "2", "WORKFLOW_API_EDGE_REDIS_URL": "redis://127.0.0.1:1"}
    line = refused("serve", "--data", str(tmp_path), variables=variables)
    assert line.startswith("edge.processes is for `workflow-api edge`: set it to 1, and serve.edges (`--edges`)")
