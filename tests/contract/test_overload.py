"""Overload by many, large and slow callers: the service stays up, within its memory, and refuses the excess.

Every attack runs against a really started service; what is asserted are answers and memory, never times.
"""

import asyncio
import resource
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from http.client import parse_headers
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import pytest
import uvloop

from tests.support.client import Caller
from tests.support.poll import LONGEST_WAIT_SECONDS, until
from tests.support.service import Service
from tests.support.wire import Address, Answer, request

pytestmark = pytest.mark.long

T = TypeVar("T")

CROWD = 2_000
BUFFER_MB = 48
# What requests and answers under way may take in all: each byte is kept about twice, and the heap has gaps.
MAX_GROWTH = 4 * BUFFER_MB * 1_000_000
OVER = (400, "invalid_request"), (502, "runtime_unreachable")


@pytest.fixture(scope="module", autouse=True)
def _open_files() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("target")
    settings = folder / "settings.toml"
    settings.write_text(f"[edge]\nbuffer_mb = {BUFFER_MB}\n")
    service = Service(folder, "--config", str(settings))
    service.start()
    yield service
    service.stop()


@pytest.fixture(scope="module")
def flows(target: Service) -> dict[str, str]:
    return target.admin.apply_test_workflows()


@pytest.fixture(scope="module")
def caller(target: Service) -> Caller:
    return target.new_caller()


class Attacker:
    """One connection of somebody who means no good."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    def stop_reading(self) -> None:
        self.writer.transport.pause_reading()  # type: ignore[attr-defined]

    async def answer(self) -> Answer:
        """The next answer."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        line, _, rest = head.partition(b"\r\n")
        headers = parse_headers(BytesIO(rest))
        return Answer(int(line.split()[1]), headers, await self.reader.readexactly(int(headers["Content-Length"])))

    async def outcome(self) -> tuple[int, str | None]:
        """Status and code of the next answer; (0, None) where the connection ends without one."""
        try:
            answer = await self.answer()
        except (OSError, asyncio.IncompleteReadError):
            return 0, None
        return answer.status, answer.code


@asynccontextmanager
async def crowd(at: Address, size: int = CROWD) -> AsyncIterator[list[Attacker]]:
    """So many connections."""
    attackers: list[Attacker] = []
    try:
        while len(attackers) < size:
            some = (asyncio.open_connection(*at) for _ in range(min(200, size - len(attackers))))
            attackers += [Attacker(*streams) for streams in await asyncio.gather(*some)]
        yield attackers
    finally:
        for attacker in attackers:
            attacker.writer.transport.abort()


def run(attack: Coroutine[Any, Any, T]) -> T:
    return uvloop.run(attack)


async def outcomes(attackers: Sequence[Attacker]) -> Counter[tuple[int, str | None]]:
    async with asyncio.timeout(LONGEST_WAIT_SECONDS):
        return Counter(await asyncio.gather(*(attacker.outcome() for attacker in attackers)))


async def is_served(caller: Caller) -> None:
    """Everybody else is served as ever."""
    for path in ("/health", "/me"):
        assert (await asyncio.to_thread(caller.get, path)).status == 200
    small = await asyncio.to_thread(caller.post, "/runs/run_none/cancel", {"reason": "small"})
    assert (small.status, small.code) == (404, "run_not_found")


def growth(target: Service, before: int) -> int:
    """By how many bytes the most memory that it ever held has risen."""
    return target.peak_memory() - before


def test_two_thousand_connections_that_send_nothing_or_half_a_request(target: Service, caller: Caller) -> None:
    before = target.peak_memory()

    async def attack() -> None:
        async with crowd(target.address) as attackers:
            for attacker in attackers[::2]:
                attacker.send(b"GET /api/v1/health HTTP/1.1\r\nHost: t\r\nX-Half: " + b"x" * 30_000)
            await is_served(caller)
            for attacker in attackers[1::2]:
                attacker.send(request("GET", "/health", ("Connection", "close")))
            assert await outcomes(attackers[1::2]) == {(200, None): CROWD // 2}

    run(attack())
    assert growth(target, before) < MAX_GROWTH


def test_two_thousand_that_send_large_bodies_and_never_end_them(target: Service, caller: Caller) -> None:
    """They are 500 MB in all; those that do not fit are refused."""
    before = target.peak_memory()
    head = request("POST", "/runs/x/cancel", ("Content-Length", "1048576"))

    async def attack() -> Counter[tuple[int, str | None]]:
        async with crowd(target.address) as attackers:
            for attacker in attackers:
                attacker.send(head + b" " * 250_000)
            await is_served(caller)
            finished = asyncio.as_completed([asyncio.create_task(attacker.outcome()) for attacker in attackers])
            async with asyncio.timeout(LONGEST_WAIT_SECONDS):
                found = Counter([await each for each in islice(finished, CROWD // 2)])
            await is_served(caller)
            return found

    finished = run(attack())
    assert set(finished) <= set(OVER), finished
    assert growth(target, before) < MAX_GROWTH
    large = {"reason": "", "unknown": "x" * 900_000}
    assert until(lambda: caller.post("/runs/run_none/cancel", large).status == 400, "room for a large body")


def test_many_callers_that_read_nothing_of_their_answers(target: Service, caller: Caller) -> None:
    before = target.peak_memory()

    async def attack() -> None:
        async with crowd(target.address, 600) as attackers:
            for attacker in attackers:
                attacker.stop_reading()
                attacker.send(b"GET /openapi.json HTTP/1.1\r\nHost: t\r\n\r\n" * 30)
            await is_served(caller)

    run(attack())
    assert growth(target, before) < MAX_GROWTH


def test_keyed_callers_that_read_nothing_of_large_answers(
    target: Service, caller: Caller, flows: dict[str, str]
) -> None:
    run_id = caller.started(flows["Typed"], parameters={"word": "abc", "extra": "x" * 1_000_000})
    get = request("GET", f"/runs/{run_id}", *caller.credential_headers) * 10
    before = target.peak_memory()

    async def attack() -> None:
        async with crowd(target.address, 150) as attackers:
            for attacker in attackers:
                attacker.stop_reading()
                attacker.send(get)
            await is_served(caller)

    run(attack())
    assert growth(target, before) < MAX_GROWTH


HOST = b" HTTP/1.1\r\nHost: t\r\n"
CHUNKED = b"POST /api/v1/runs/x/cancel" + HOST + b"Transfer-Encoding: chunked\r\n\r\n"
BOMBS = {
    "a long header": (b"GET /api/v1/health" + HOST + b"X: " + b"x" * 32_000 + b"\r\n\r\n", (200, None)),
    "too long a header": (b"GET /api/v1/health" + HOST + b"X: " + b"x" * 200_000 + b"\r\n\r\n", OVER[0]),
    "thousands of headers": (b"GET /api/v1/health" + HOST + b"X: y\r\n" * 5_000 + b"\r\n", (200, None)),
    "tens of thousands of headers": (b"GET /api/v1/health" + HOST + b"X: y\r\n" * 50_000 + b"\r\n", OVER[0]),
    "headers that are folded": (b"GET /api/v1/health" + HOST + b"X: y\r\n" + b" z\r\n" * 20_000 + b"\r\n", OVER[0]),
    "a long URL": (b"GET /api/v1/" + b"x" * 32_000 + HOST + b"\r\n", (404, "not_found")),
    "too long a URL": (b"GET /" + b"x" * 200_000 + HOST + b"\r\n", OVER[0]),
    "a path of thousands of parts": (b"GET /api/v1/runs" + b"/.." * 10_000 + HOST + b"\r\n", (404, "not_found")),
    "thousands of parameters": (b"GET /api/v1/runs?" + b"a=1&" * 8_000 + HOST + b"\r\n", (401, "unauthorized")),
    "a credential of blanks": (
        b"GET /api/v1/me" + HOST + b"Authorization: Bearer" + b" " * 32_000 + b"x\r\n\r\n",
        (401, "unauthorized"),
    ),
    "a method without end": (b"A" * 200_000, OVER[0]),
    "line ends without end": (b"\r\n" * 100_000, OVER[0]),
    "zeros": (b"\0" * 100_000, OVER[0]),
    "a body in single bytes": (CHUNKED + b"1\r\n \r\n" * 100_000 + b"0\r\n\r\n", OVER[0]),
    "a chunk's extension without end": (CHUNKED + b"1;" + b"x" * 200_000 + b"\r\n \r\n0\r\n\r\n", OVER[0]),
    "trailers without end": (CHUNKED + b"0\r\n" + b"T: x\r\n" * 50_000 + b"\r\n", OVER[0]),
    "a length beyond counting": (
        b"POST /api/v1/runs/x/cancel" + HOST + b"Content-Length: " + b"9" * 30_000 + b"\r\n\r\n",
        (413, "payload_too_large"),
    ),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_of_headers_or_framing_is_answered_and_affects_no_other_caller(
    target: Service, caller: Caller, bomb: str
) -> None:
    data, expected = BOMBS[bomb]

    async def attack() -> Counter[tuple[int, str | None]]:
        async with crowd(target.address, 4) as attackers:
            for attacker in attackers:
                attacker.send(data)
            await is_served(caller)
            return await outcomes(attackers)

    assert run(attack()) == {expected: 4}


MEBIBYTE = 1_048_576
JSON_BOMBS = {
    "brackets without end": b"[" * MEBIBYTE,
    "as deep as may be, side by side": b"[" + b",".join([b"[" * 900 + b"]" * 900] * 580) + b"]",
    "hundreds of thousands of lists": b"[" + b"[]," * 349_000 + b"[]]",
    "tens of thousands of names": b"{" + b",".join(b'"%d":1' % number for number in range(95_000)) + b"}",
    "names with escapes": b"{" + b",".join(rb'"\u0030%d":1' % number for number in range(60_000)) + b"}",
    "a name twice at the end": b"[" + b'{"":0},' * 149_000 + b'{"a":1,"a":2}]',
    "a number of a million digits": b"[" + b"9" * 1_000_000 + b"]",
    "long numbers": b"[" + b"12345678901234567890," * 49_000 + b"1]",
}


@pytest.mark.parametrize("bomb", JSON_BOMBS)
def test_a_bomb_of_json_is_answered_and_affects_no_other_caller(target: Service, caller: Caller, bomb: str) -> None:
    body = JSON_BOMBS[bomb]
    data = request("POST", "/runs/x/cancel", ("Content-Length", str(len(body))), body=body)
    before = target.peak_memory()

    async def attack() -> Counter[tuple[int, str | None]]:
        async with crowd(target.address, 2) as attackers:
            for attacker in attackers:
                attacker.send(data)
            await is_served(caller)
            return await outcomes(attackers)

    assert set(run(attack())) <= {*OVER, (401, "unauthorized")}
    assert growth(target, before) < MAX_GROWTH


def test_nobody_without_a_key_stands_before_starts_with_one(target: Service, flows: dict[str, str]) -> None:
    caller = target.new_caller(rate_limit_rpm=10_000)
    hostile = b'[{"\\u0061":1}' + b',{"a":1}' * 130_000 + b"]"
    data = request("POST", "/runs/x/cancel", ("Content-Length", str(len(hostile))), body=hostile)
    start = partial(caller.start, flows["Typed"], parameters={"word": "abc", "extra": "x" * 18_000})

    stopped = asyncio.Event()

    async def keep_sending(attacker: Attacker) -> set[tuple[int, str | None]]:
        found = set()
        while not stopped.is_set():
            attacker.send(data)
            found.add(await attacker.outcome())
        return found

    async def attack() -> tuple[list[int], list[set[tuple[int, str | None]]]]:
        async with crowd(target.address, 34) as attackers:
            attacking = [asyncio.create_task(keep_sending(attacker)) for attacker in attackers]
            statuses = [(await asyncio.to_thread(start)).status for _ in range(12)]
            stopped.set()
            return statuses, await asyncio.gather(*attacking)

    statuses, hostiles = run(attack())
    assert set(statuses) == {201}
    assert set().union(*hostiles) <= {*OVER, (401, "unauthorized")}


def test_ten_times_the_starts_that_fit_each_succeed_or_are_refused(target: Service, flows: dict[str, str]) -> None:
    callers = [target.new_caller() for _ in range(10)]
    path = f"/workflows/{flows['Park']}/runs"
    before = target.peak_memory()

    async def attack() -> Counter[tuple[int, str | None]]:
        async with crowd(target.address, 1_200) as attackers:
            for number, attacker in enumerate(attackers):
                credentials = callers[number % len(callers)].credential_headers
                headers = ("Idempotency-Key", f"flood-{number}"), ("Content-Length", "2"), *credentials
                attacker.send(request("POST", path, *headers, body=b"{}"))
            await is_served(callers[0])
            return await outcomes(attackers)

    made = run(attack())
    assert set(made) <= {(201, None), (429, "too_many_active_runs"), (502, "runtime_unreachable")}, made
    assert made[201, None] == sum(caller.get("/me").json()["active_runs"] for caller in callers)
    assert growth(target, before) < MAX_GROWTH


def test_many_callers_of_one_zip_of_many_files(target: Service, flows: dict[str, str]) -> None:
    caller = target.new_caller()
    run_id = caller.finished(flows["Files"], parameters={"count": 500})["run_id"]
    path = f"/runs/{run_id}/outputs.zip"
    whole = caller.get(path)
    assert whole.status == 200
    before = target.peak_memory()

    async def attack() -> list[Answer]:
        async with crowd(target.address, 20) as attackers:
            for attacker in attackers:
                attacker.send(request("GET", path, *caller.credential_headers))
            await is_served(caller)
            return list(await asyncio.gather(*(attacker.answer() for attacker in attackers)))

    answers = run(attack())
    assert {answer.code for answer in answers} <= {None, "runtime_unreachable"}
    given = [answer.body for answer in answers if answer.status == 200]
    assert given
    assert all(body == whole.body for body in given)
    assert growth(target, before) < MAX_GROWTH


def test_more_connections_than_file_descriptors(tmp_path: Path) -> None:
    service = Service(tmp_path)
    service.start()
    try:
        caller = service.new_caller()
        few = len(list(Path(f"/proc/{service.pid}/fd").iterdir())) + 100
        resource.prlimit(service.pid, resource.RLIMIT_NOFILE, (few, few))

        async def attack() -> None:
            async with crowd(service.address, 500):
                pass

        run(attack())
        until(lambda: caller.get("/me").status == 200, "the service to take callers again")
        assert "No connection can be accepted" in service.log()
    finally:
        service.stop()


def test_a_service_raises_its_limit_of_open_files(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    service = Service(tmp_path)
    resource.setrlimit(resource.RLIMIT_NOFILE, (700, hard))
    try:
        service.start()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    try:
        assert resource.prlimit(service.pid, resource.RLIMIT_NOFILE)[0] >= min(hard, 4_512)
    finally:
        service.stop()


def test_silent_connections_are_evicted_for_callers(target: Service, caller: Caller) -> None:
    """There are 200 more of them than there are connections."""

    async def attack() -> None:
        async with crowd(target.address, 4_200) as attackers:
            await is_served(caller)
            assert await attackers[0].outcome() == (0, None)

    run(attack())
