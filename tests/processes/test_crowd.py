"""Four backends and 64 clients: no slot is exceeded, and no unit of the quota lost or charged twice."""

import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from operator import methodcaller
from typing import Any

import grpc
import psycopg
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from contract.metadata import KEY_ID
from tests.support.admin import Admin
from tests.support.deployment import Deployment
from tests.support.part import Part
from tests.support.poll import until
from tests.support.postgresql import Postgresql
from workflow_api.v1 import runs_pb2, runs_pb2_grpc

BACKENDS = 4
CLIENTS = 64
AWAY = "nobody answered"
OVERLOADED = "runtime_unreachable"
"""On a slow machine a start may wait for the lock of its key for longer than the database allows."""
IN_FLIGHT = "status IN ('queued', 'running', 'waiting_for_approval')"


@dataclass(frozen=True)
class Answer:
    """What came of a start: `started`, `replayed`, or why not."""

    outcome: str
    run_id: str = ""
    retry_after: int = 0


class Crowd:
    """Backends without workers, so that a run stays in flight until it is cancelled; client n calls backend n mod 4."""

    def __init__(self, deployment: Deployment, database: str) -> None:
        self.backends: list[Part] = [deployment.backend() for _ in range(BACKENDS)]
        self.admin: Admin = deployment.admin(self.backends[0])
        self.workflow_id = self.admin.apply_test_workflows()["Park"]
        self._database = database

    def new_key(self, **limits: int) -> str:
        return self.admin.create_key(**limits).key_id  # type: ignore[arg-type]

    @contextmanager
    def clients(self, key_id: str) -> Iterator[list["Client"]]:
        with ExitStack() as stack:
            yield [stack.enter_context(self._client(number, key_id)) for number in range(CLIENTS)]

    def concurrently(self, key_id: str, work: Callable[["Client"], Any]) -> list[Any]:
        """Returns what the work of each client returns; all start at the same time."""
        barrier = threading.Barrier(CLIENTS)

        def begin(client: Client) -> Any:
            barrier.wait(60)
            return work(client)

        with self.clients(key_id) as clients, ThreadPoolExecutor(CLIENTS) as pool:
            return list(pool.map(begin, clients))

    def query(self, statement: str, key_id: str) -> int:
        with psycopg.connect(self._database) as connection:
            found = connection.execute(statement.encode(), [key_id]).fetchone()
        assert found is not None
        return int(found[0] or 0)

    def runs(self, key_id: str, condition: str = "true") -> int:
        return self.query(f"SELECT count(*) FROM runs WHERE key_id = %s AND {condition}", key_id)

    def charged(self, key_id: str) -> int:
        return self.query("SELECT sum(runs_started) FROM daily_usage WHERE key_id = %s", key_id)

    @contextmanager
    def watched(self, key_id: str) -> Iterator[list[int]]:
        """The most runs in flight at once that anybody could see meanwhile, once it is over."""
        ended, seen = threading.Event(), [0]

        def watch() -> None:
            with psycopg.connect(self._database, autocommit=True) as connection:
                statement = f"SELECT count(*) FROM runs WHERE key_id = %s AND {IN_FLIGHT}".encode()
                while not ended.is_set():
                    found = connection.execute(statement, [key_id]).fetchone()
                    assert found is not None
                    seen[0] = max(seen[0], found[0])

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            yield seen
        finally:
            ended.set()
            watcher.join()

    @contextmanager
    def _client(self, number: int, key_id: str) -> Iterator["Client"]:
        with ExitStack() as stack:
            stubs = []
            for step in range(BACKENDS):
                address = self.backends[(number + step) % BACKENDS].ready["grpc"]
                channel = grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)])
                stubs.append(runs_pb2_grpc.RunsServiceStub(stack.enter_context(channel)))
            yield Client(number, stubs, key_id, self.workflow_id)


@dataclass
class Client:
    """One caller with connections of its own; it goes to the next backend where one does not answer."""

    number: int
    stubs: list[runs_pb2_grpc.RunsServiceStub]
    key_id: str
    workflow_id: str

    def start(self, idempotency_key: str | None = None, text: str = "the same") -> Answer:
        request = runs_pb2.StartRunRequest(
            workflow_id=self.workflow_id, idempotency_key=idempotency_key or uuid.uuid4().hex, input_text=text
        )
        answer = Answer(OVERLOADED)
        while answer.outcome == OVERLOADED:
            answer = self._start(request)
        return answer

    def _start(self, request: runs_pb2.StartRunRequest) -> Answer:
        try:
            answer = self.stubs[0].StartRun(request, metadata=self._metadata, timeout=60)
        except grpc.RpcError as error:
            return _refused(error)
        return Answer("replayed" if answer.replayed else "started", answer.run.summary.run_id)

    def start_surely(self, idempotency_key: str) -> Answer:
        """Asks again with the same key until there is an answer that stays."""
        while True:
            answer = self.start(idempotency_key)
            if answer.outcome == AWAY:
                self.stubs.append(self.stubs.pop(0))
            elif answer.outcome != "idempotency_conflict":
                return answer

    def cancel(self, run_id: str) -> None:
        self.stubs[0].CancelRun(runs_pb2.CancelRunRequest(run_id=run_id), metadata=self._metadata, timeout=60)

    @property
    def _metadata(self) -> tuple[tuple[str, str], ...]:
        return ((KEY_ID, self.key_id),)


def _refused(error: Any) -> Answer:
    status = rpc_status.from_call(error)
    if status is None:
        assert error.code() == grpc.StatusCode.UNAVAILABLE, error
        return Answer(AWAY)
    info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
    for detail in status.details:
        detail.Unpack(info)
        detail.Unpack(retry)
    return Answer(info.reason.lower(), retry_after=retry.retry_delay.seconds)


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory, postgresql_server: Postgresql) -> Iterator[Crowd]:
    with postgresql_server.database() as database:
        # Eight calls at once is all that each serves.
        deployment = Deployment(tmp_path_factory.mktemp("crowd"), database, BACKEND_DATABASE_CONNECTIONS="12")
        try:
            yield Crowd(deployment, database)
        finally:
            deployment.stop()


def test_equal_starts_make_one_run(crowd: Crowd) -> None:
    key_id = crowd.new_key()
    for number in range(8):
        answers = crowd.concurrently(key_id, methodcaller("start", f"round {number}"))
        outcomes = Counter(answer.outcome for answer in answers)
        assert outcomes["started"] == 1, outcomes
        assert outcomes.keys() <= {"started", "replayed", "idempotency_conflict"}
        assert len({answer.run_id for answer in answers if answer.run_id}) == 1
        assert {answer.retry_after for answer in answers if answer.outcome == "idempotency_conflict"} <= {1}
        assert (crowd.runs(key_id), crowd.charged(key_id)) == (number + 1, number + 1)


def test_of_different_starts_with_one_idempotency_key_one_succeeds(crowd: Crowd) -> None:
    key_id = crowd.new_key()
    answers = crowd.concurrently(
        key_id, lambda client: (client.number % 3, client.start("k", f"body {client.number % 3}"))
    )
    ((body, run_id),) = [(body, answer.run_id) for body, answer in answers if answer.outcome == "started"]
    for other, answer in answers:
        if other == body:
            assert answer.outcome == "idempotency_conflict" or answer.run_id == run_id
        else:
            assert answer.outcome == "idempotency_conflict"
    assert (crowd.runs(key_id), crowd.charged(key_id)) == (1, 1)


def test_no_more_runs_than_slots_are_in_flight_however_they_are_freed(crowd: Crowd) -> None:
    key_id = crowd.new_key(max_concurrent_runs=7)
    started: list[str] = []

    def fill(client: Client) -> Answer:
        return client.start()

    def churn(client: Client) -> list[str]:
        outcomes = []
        for _ in range(6):
            answer = client.start()
            outcomes.append(answer.outcome)
            if answer.run_id:
                client.cancel(answer.run_id)
        return outcomes

    with crowd.watched(key_id) as most:
        answers = crowd.concurrently(key_id, fill)
        assert Counter(answer.outcome for answer in answers) == {"started": 7, "too_many_active_runs": CLIENTS - 7}
        started = [answer.run_id for answer in answers if answer.run_id]
        with crowd.clients(key_id) as (client, *_):
            for run_id in started:
                client.cancel(run_id)
        outcomes = Counter(outcome for each in crowd.concurrently(key_id, churn) for outcome in each)
    assert most == [7]
    assert outcomes.keys() == {"started", "too_many_active_runs"}
    assert crowd.runs(key_id, IN_FLIGHT) == 0
    assert crowd.charged(key_id) == crowd.runs(key_id) == 7 + outcomes["started"]


def test_the_quota_is_charged_once_for_each_run(crowd: Crowd) -> None:
    key_id = crowd.new_key(daily_run_quota=75)
    pairs = crowd.concurrently(key_id, lambda client: [client.start(), client.start()])
    outcomes = Counter(answer.outcome for pair in pairs for answer in pair)
    assert outcomes == {"started": 75, "quota_exceeded": 2 * CLIENTS - 75}
    assert (crowd.runs(key_id), crowd.charged(key_id)) == (75, 75)


def test_starts_are_neither_lost_nor_doubled_when_a_backend_dies(crowd: Crowd) -> None:
    key_id = crowd.new_key(daily_run_quota=90)
    killed = threading.Event()

    def starts(client: Client) -> list[Answer]:
        answers = [client.start_surely(f"{client.number} before")]
        if client.number == 0:
            until(lambda: crowd.runs(key_id) >= 20, "some runs")
            crowd.backends[1].kill()
            killed.set()
        return [*answers, client.start_surely(f"{client.number} after")]

    try:
        answers = [answer for pair in crowd.concurrently(key_id, starts) for answer in pair]
    finally:
        assert killed.is_set()
        crowd.backends[1].start()
    run_ids = [answer.run_id for answer in answers if answer.run_id]
    assert Counter(answer.outcome for answer in answers)["quota_exceeded"] == 2 * CLIENTS - 90
    assert len(run_ids) == len(set(run_ids)) == 90
    assert (crowd.runs(key_id), crowd.charged(key_id)) == (90, 90)
