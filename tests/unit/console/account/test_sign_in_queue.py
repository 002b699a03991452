import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from console.account.sign_in_queue import SignInQueue
from contract.refusals import Refusal

CROWD, PERSON = "203.0.113.7", "198.51.100.1"


class Backend:
    """Verifies on demand, and records the order of calls."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._gates: list[asyncio.Future[str]] = []

    def verify(self, name: str) -> Callable[[], Awaitable[str]]:
        async def call() -> str:
            self.asked.append(name)
            gate: asyncio.Future[str] = asyncio.get_running_loop().create_future()
            self._gates.append(gate)
            return await gate

        return call

    async def answer(self, refusal: Refusal | None = None) -> None:
        """Answers the call that has waited longest."""
        gate = self._gates.pop(0)
        gate.set_result("done") if refusal is None else gate.set_exception(refusal)
        await settled()


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def run(test: Callable[[SignInQueue, Backend], Awaitable[Any]]) -> None:
    async def with_queue() -> None:
        await test(SignInQueue(), Backend())

    asyncio.run(with_queue())


def asked_by(queue: SignInQueue, backend: Backend, address: str, *names: str) -> list[asyncio.Task[str]]:
    return [asyncio.create_task(queue.run(address, backend.verify(name))) for name in names]


def test_concurrent_verifications_are_limited() -> None:
    async def test(queue: SignInQueue, backend: Backend) -> None:
        asked_by(queue, backend, CROWD, *"abcd")
        await settled()
        assert backend.asked == ["a", "b"]
        await backend.answer()
        assert backend.asked == ["a", "b", "c"]

    run(test)


def test_addresses_are_served_round_robin() -> None:
    async def test(queue: SignInQueue, backend: Backend) -> None:
        asked_by(queue, backend, CROWD, *"abcdef")
        await settled()
        asked_by(queue, backend, PERSON, "me")
        await settled()
        for _ in range(2):
            await backend.answer()
        assert "me" in backend.asked[:4]

    run(test)


def test_addresses_without_a_failure_come_before_those_with_one() -> None:
    async def test(queue: SignInQueue, backend: Backend) -> None:
        crowd = [f"203.0.113.{number}" for number in range(20)]
        failed = [task for address in crowd for task in asked_by(queue, backend, address, "x")]
        await settled()
        for _ in crowd:
            await backend.answer(Refusal("unauthorized"))
        assert all(isinstance(task.exception(), Refusal) for task in failed)
        again = [task for address in crowd for task in asked_by(queue, backend, address, "again")]
        await settled()
        asked_by(queue, backend, PERSON, "me")
        await settled()
        await backend.answer()
        assert backend.asked[-1] == "me"
        for task in again:
            task.cancel()

    run(test)


def test_addresses_with_a_success_come_before_unknown_ones() -> None:
    async def test(queue: SignInQueue, backend: Backend) -> None:
        asked_by(queue, backend, PERSON, "first")
        await settled()
        await backend.answer()
        strangers = [asked_by(queue, backend, f"203.0.113.{number}", "x")[0] for number in range(60)]
        await settled()
        asked_by(queue, backend, PERSON, "me")
        await settled()
        await backend.answer()
        assert backend.asked[-1] == "me"
        for task in strangers:
            task.cancel()

    run(test)


def test_a_success_clears_a_failure() -> None:
    async def test(queue: SignInQueue, backend: Backend) -> None:
        asked_by(queue, backend, PERSON, "typo")
        await settled()
        await backend.answer(Refusal("unauthorized"))
        asked_by(queue, backend, PERSON, "right")
        await settled()
        await backend.answer()
        asked_by(queue, backend, CROWD, *"abcd")
        asked_by(queue, backend, PERSON, "again")
        await settled()
        await backend.answer()
        await backend.answer()
        assert "again" in backend.asked[-2:]

    run(test)


def test_waiting_sign_ins_are_limited_per_address() -> None:
    async def test(queue: SignInQueue, backend: Backend) -> None:
        crowd = asked_by(queue, backend, CROWD, *map(str, range(40)))
        me = asked_by(queue, backend, PERSON, "me")[0]
        await settled()
        refused = [task.exception() for task in crowd if task.done()]
        assert len(refused) == 40 - 2 - 10
        assert {error.code for error in refused if isinstance(error, Refusal)} == {"rate_limited"}
        while not me.done():
            await backend.answer()
        assert me.result() == "done"

    run(test)


def test_the_addresses_of_one_ipv6_network_count_as_one() -> None:
    async def test(queue: SignInQueue, backend: Backend) -> None:
        tasks = [asked_by(queue, backend, f"2001:db8::{number:x}", "x")[0] for number in range(40)]
        await settled()
        assert sum(task.done() for task in tasks) == 40 - 2 - 10

    run(test)


def test_a_cancelled_sign_in_frees_its_slot() -> None:
    async def test(queue: SignInQueue, backend: Backend) -> None:
        tasks = asked_by(queue, backend, CROWD, *"abcd")
        await settled()
        tasks[2].cancel()
        await settled()
        await backend.answer()
        await backend.answer()
        assert backend.asked == ["a", "b", "d"]
        await backend.answer()
        asked_by(queue, backend, CROWD, "e", "f")
        await settled()
        assert backend.asked[-2:] == ["e", "f"]

    run(test)


def test_waiting_sign_ins_are_refused_when_the_console_stops() -> None:
    async def test(queue: SignInQueue, backend: Backend) -> None:
        under_way, _, waiting = asked_by(queue, backend, CROWD, *"abc")
        await settled()
        queue.close()
        later = asked_by(queue, backend, PERSON, "d")[0]
        await settled()
        assert {refused.exception().code for refused in (waiting, later)} == {"runtime_unreachable"}  # type: ignore[union-attr]  # both are refused
        await backend.answer()
        assert under_way.result() == "done"
        assert backend.asked == ["a", "b"]

    run(test)


def test_a_backend_that_is_busy_for_a_second_is_called_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def no_sleep(seconds: float) -> None:
        assert seconds <= 1

    async def test(queue: SignInQueue, _: Backend) -> None:
        answers = [Refusal("rate_limited", retry_after=1), Refusal("rate_limited", retry_after=1), None]

        async def call() -> str:
            answer = answers.pop(0)
            if answer is not None:
                raise answer
            return "done"

        with monkeypatch.context() as patched:
            patched.setattr(asyncio, "sleep", no_sleep)
            assert await queue.run(PERSON, call) == "done"

    run(test)


def test_a_wait_after_too_many_failures_is_passed_on() -> None:
    async def test(queue: SignInQueue, _: Backend) -> None:
        async def call() -> str:
            raise Refusal("rate_limited", retry_after=60)

        with pytest.raises(Refusal) as refused:
            await queue.run(PERSON, call)
        assert refused.value.retry_after == 60

    run(test)
