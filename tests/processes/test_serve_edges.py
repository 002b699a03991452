"""`workflow-api serve --edges N`: edges in processes of their own before one backend on SQLite. (contract 28.10)"""

import http.client
import os
import signal
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from time import monotonic

import pytest

from tests.support.browsing import Browser
from tests.support.client import Caller, call
from tests.support.part import refused
from tests.support.poll import until, within_one_minute
from tests.support.ports import answers
from tests.support.scrape import LISTEN, scrape
from tests.support.service import Service
from tests.support.wire import BASE, Wire, request
from workflow_api.v1 import users_pb2

EDGES = 2
HELD = 4


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[Service]:
    folder.mkdir(parents=True, exist_ok=True)
    variables = LISTEN | {"WORKFLOW_API_EDGE_HELD_PER_KEY": str(HELD)}
    service = Service(folder, "--edges", str(EDGES), *options, variables=variables)
    try:
        service.start()
        yield service
    finally:
        service.stop()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("edges")) as service:
        yield service


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Service]:
    with serving(tmp_path / "own") as service:
        yield service


def edges(service: Service) -> set[int]:
    """The process ids of its edges."""
    children = Path(f"/proc/{service.pid}/task/{service.pid}/children").read_text().split()
    return {int(pid) for pid in children if "deploy.serve.edge_worker" in _arguments(int(pid))}


def _arguments(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def sockets(pid: int) -> int:
    links = (path.readlink() for path in Path(f"/proc/{pid}/fd").iterdir())
    return sum(str(link).startswith("socket:") for link in links)


def known_everywhere(service: Service, caller: Caller) -> None:
    """Returns once every edge knows the key, by calls that all answer at once and so go to different processes."""

    def known() -> bool:
        with ExitStack() as stack:
            wires = [stack.enter_context(Wire(service.address)) for _ in range(8 * EDGES)]
            for wire in wires:
                wire.send(request("GET", "/runs?limit=0", *caller.credential_headers))
            return {wire.answer().status for wire in wires} == {400}

    until(known, "all edges to know the key")


def test_connections_are_spread_over_the_edges(shared: Service) -> None:
    assert len(edges(shared)) == EDGES

    def all_take_some() -> bool:
        before = {pid: sockets(pid) for pid in edges(shared)}
        with ExitStack() as stack:
            wires = [stack.enter_context(Wire(shared.address)) for _ in range(16)]
            for wire in wires:
                wire.send(request("GET", "/health"))
            assert {wire.answer().status for wire in wires} == {200}
            return all(sockets(pid) > before[pid] for pid in before)

    until(all_take_some, "connections at every edge")


def test_a_limit_is_exact_over_edges_that_are_called_at_the_same_time(shared: Service) -> None:
    limit, threads = 200, 8

    def calls_until_full(caller: Caller) -> list[tuple[int, int]]:
        seen: list[tuple[int, int]] = []
        with closing(http.client.HTTPConnection(*shared.address, timeout=60)) as connection:
            while not seen or seen[-1][0] == 200:
                connection.request("GET", BASE + "/me", headers=caller.credentials)
                answer = connection.getresponse()
                answer.read()
                assert answer.headers["RateLimit-Limit"] == str(limit)
                assert answer.status == 200 or int(answer.headers["Retry-After"]) >= 1
                seen.append((answer.status, int(answer.headers["RateLimit-Remaining"])))
        return seen

    def attempt() -> tuple[int, list[tuple[int, int]]]:
        caller = shared.new_caller(rate_limit_rpm=limit)
        known_everywhere(shared, caller)
        left = int(caller.get("/me").headers["RateLimit-Remaining"])
        with ThreadPoolExecutor(threads) as pool:
            found = list(pool.map(lambda _: calls_until_full(caller), range(threads)))
        return left, [each for seen in found for each in seen]

    left, seen = within_one_minute(attempt)
    # Every call had a place of its own.
    assert sorted(remaining for status, remaining in seen if status == 200) == list(range(left))
    assert [each for each in seen if each[0] != 200] == [(429, 0)] * threads


def test_all_edges_together_hold_as_many_calls_of_a_key_as_allowed(shared: Service) -> None:
    caller = shared.new_caller()
    known_everywhere(shared, caller)
    run_id = caller.parked(shared.admin.apply_test_workflows()["Park"])["run_id"]
    with ExitStack() as stack:
        wires = [stack.enter_context(Wire(shared.address)) for _ in range(4 * HELD)]
        for wire in wires:
            wire.send(request("GET", f"/runs/{run_id}?wait_seconds=30", *caller.credential_headers))
        url = shared.ready["metrics"]
        until(lambda: scrape(url).value("http_waiting") == HELD, "as many held calls as allowed")
        # The others are answered at once.
        until(lambda: scrape(url).value("http_requests_in_flight") == HELD, "the answers to the others")
    until(lambda: scrape(url).value("http_waiting") == 0, "the end of the calls")


def test_what_a_killed_edge_held_may_be_held_again(own: Service) -> None:
    caller = own.new_caller()
    known_everywhere(own, caller)
    run_id = caller.parked(own.admin.apply_test_workflows()["Park"])["run_id"]
    url = own.ready["metrics"]

    def hold(stack: ExitStack) -> None:
        for _ in range(4 * HELD):
            wire = stack.enter_context(Wire(own.address))
            wire.send(request("GET", f"/runs/{run_id}?wait_seconds=30", *caller.credential_headers))
        until(lambda: scrape(url).value("http_waiting") == HELD, "as many held calls as allowed")

    with ExitStack() as stack:
        hold(stack)
        before = edges(own)
        for pid in before:
            os.kill(pid, signal.SIGKILL)
    until(lambda: len(edges(own) - before) == EDGES and answers(own.address[1]), "other edges")
    known_everywhere(own, caller)
    with ExitStack() as stack:
        hold(stack)


def test_a_killed_edge_is_replaced_and_no_acknowledged_start_is_lost(own: Service) -> None:
    caller = own.new_caller()
    known_everywhere(own, caller)
    workflow = own.admin.apply_test_workflows()["Echo"]
    started: list[str] = []
    refused_or_failed: list[object] = []
    ended = threading.Event()

    def starting() -> None:
        while not ended.is_set():
            try:
                answer = caller.start(workflow)
            except (OSError, http.client.HTTPException) as error:
                # Its connection belonged to the edge that was killed.
                if isinstance(error, ConnectionRefusedError):
                    refused_or_failed.append(error)
                continue
            if answer.status == 201:
                started.append(answer.json()["run_id"])
            # 401: another edge that does not know the key yet.
            elif answer.code not in {"too_many_active_runs", "unauthorized", "deployment_updating"}:
                refused_or_failed.append(answer)

    threads = [threading.Thread(target=starting) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(2):
            before = edges(own)
            so_far = len(started)
            until(lambda so_far=so_far: len(started) > so_far + 3, "starts")  # type: ignore[misc]
            os.kill(min(before), signal.SIGKILL)
            until(lambda before=before: len(edges(own) - before) == 1, "another edge")  # type: ignore[misc]
        until(lambda: len(edges(own)) == EDGES, "both edges")
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert refused_or_failed == []
    known_everywhere(own, caller)
    assert {caller.wait(run_id)["status"] for run_id in started} == {"completed"}
    assert "and is replaced" in own.log()


def test_the_other_edges_serve_while_one_is_started_again(own: Service) -> None:
    os.kill(min(edges(own)), signal.SIGKILL)
    began = monotonic()
    while len(edges(own)) < EDGES or monotonic() - began < 0.5:
        assert call(own.address, "GET", f"{BASE}/health").status == 200


def test_callers_who_connect_while_no_edge_lives_are_answered_by_the_next(own: Service) -> None:
    before = edges(own)
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    until(lambda: not any(_arguments(pid) for pid in before), "the end of the edges", every=0.001)
    with ExitStack() as stack:
        wires = [stack.enter_context(Wire(own.address)) for _ in range(8)]
        for wire in wires:
            wire.send(request("GET", "/health"))
        assert {wire.answer().status for wire in wires} == {200}


def test_a_stop_answers_what_is_under_way_and_ends_with_0(own: Service) -> None:
    caller = own.new_caller()
    known_everywhere(own, caller)
    before = edges(own)
    body = b'{"reason": "none"}'
    head = request("POST", "/runs/x/cancel", *caller.credential_headers, ("Content-Length", str(len(body))))
    with ExitStack() as stack:
        wires = [stack.enter_context(Wire(own.address)) for _ in range(16)]
        for wire in wires:
            wire.send(head + body[:5])
        own.signal(signal.SIGTERM)
        until(lambda: not answers(own.address[1]), "the end of listening")
        for wire in wires:
            wire.send(body[5:])
        given = [wire.answer() for wire in wires]
    # The backend said so.
    assert {answer.code for answer in given} == {"run_not_found"}
    assert {answer.headers["Connection"] for answer in given} == {"close"}
    assert own.ended() == 0
    assert not any(_arguments(pid) for pid in before)
    assert "Traceback" not in own.log()


def test_edges_end_with_the_command_however_it_ends(own: Service) -> None:
    before = edges(own)
    own.kill()
    until(lambda: not any(_arguments(pid) for pid in before), "the end of the edges")
    assert not answers(own.address[1])
    # What it left does not keep it from starting again.
    own.start()
    assert own.call("GET", "/health").status == 200


def test_each_edge_has_its_own_series_beside_those_of_the_command(shared: Service) -> None:
    seen = scrape(shared.ready["metrics"])
    places = [str(number) for number in range(EDGES)]
    assert [seen.value("build_info", part="edge", process=place) for place in places] == [1] * EDGES
    assert seen.value("build_info", part="serve") == 1
    assert seen.value("build_info") == EDGES + 1
    assert seen.value("rate_limit_shared") == EDGES
    assert seen.value("process_resident_memory_bytes", process="0") > 0
    assert seen.value("process_resident_memory_bytes") > seen.value("process_resident_memory_bytes", process="0")


def test_people_sign_in_to_the_console_beside_the_edges(tmp_path: Path) -> None:
    with serving(tmp_path / "console", "--console", "127.0.0.1:0") as service:
        password = service.admin.add_user("ada", users_pb2.ROLE_ADMINISTRATOR)
        host, _, port = service.ready["console"].removeprefix("http://").rstrip("/").partition(":")
        browser = Browser((host, int(port)))
        assert browser.sign_in("ada", password).location == "/password"
        form = browser.get("/password")
        browser.post("/password", form.token, password=password, new_password="of her own 1", again="of her own 1")
        for _ in range(4 * EDGES):
            assert browser.get("/keys").status == 200


def test_a_data_folder_with_a_long_path_serves(tmp_path: Path) -> None:
    with serving(tmp_path / ("long" * 30)) as service:
        assert service.call("GET", "/health").status == 200


def test_an_address_in_use_is_told_in_one_line(tmp_path: Path) -> None:
    command = ("serve", "--edges", "2", "--data", str(tmp_path / "data"), "--grpc", "127.0.0.1:0")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = refused(*command, "--http", f"127.0.0.1:{port}")
    assert line == f"The HTTP address 127.0.0.1:{port} is in use by another process."


@pytest.mark.parametrize("given", ["17", "-1"])
def test_a_number_of_edges_out_of_bounds_is_refused_with_the_bounds(tmp_path: Path, given: str) -> None:
    assert refused("serve", f"--edges={given}", "--data", str(tmp_path)) == "--edges: must be from 0 to 16"
