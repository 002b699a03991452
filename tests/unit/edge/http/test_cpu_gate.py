import asyncio

import pytest

from edge.errors import Refusal
from edge.http.cpu_gate import CpuGate


def test_one_piece_of_work_runs_at_a_time_in_the_order_of_arrival() -> None:
    async def attempt() -> list[str]:
        cpu_gate, done = CpuGate(), []

        async def work(name: str) -> None:
            async with cpu_gate:
                done.append(f"{name} begins")
                await asyncio.sleep(0)
                done.append(f"{name} ends")

        await asyncio.gather(*(work(name) for name in "abc"))
        return done

    assert asyncio.run(attempt()) == [f"{name} {what}" for name in "abc" for what in ("begins", "ends")]


def test_the_gate_stays_closed_three_times_as_long_as_work_took(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 100.0
    rests: list[float] = []

    async def sleep(seconds: float) -> None:
        rests.append(seconds)

    async def attempt() -> None:
        nonlocal clock
        cpu_gate = CpuGate()
        async with cpu_gate:
            clock += 2.0
        clock += 1.0
        async with cpu_gate:
            pass

    monkeypatch.setattr("edge.http.cpu_gate.monotonic", lambda: clock)
    monkeypatch.setattr("edge.http.cpu_gate.asyncio.sleep", sleep)
    asyncio.run(attempt())
    assert rests == [0.0, 5.0]


def test_work_beyond_the_queue_is_refused() -> None:
    async def attempt() -> list[str]:
        cpu_gate, let_go = CpuGate(), asyncio.Event()

        async def work() -> str:
            try:
                async with cpu_gate:
                    await let_go.wait()
            except Refusal as refusal:
                return refusal.code
            return "done"

        working = [asyncio.create_task(work()) for _ in range(40)]
        await asyncio.sleep(0)
        let_go.set()
        return await asyncio.gather(*working)

    assert asyncio.run(attempt()) == ["done"] * 32 + ["runtime_unreachable"] * 8


def test_work_that_fails_or_is_given_up_leaves_the_turn_to_the_next() -> None:
    async def attempt() -> None:
        cpu_gate = CpuGate()
        with pytest.raises(ValueError, match="broken"):
            async with cpu_gate:
                raise ValueError("broken")
        async with cpu_gate:
            waiting = asyncio.create_task(cpu_gate.__aenter__())
            await asyncio.sleep(0)
            waiting.cancel()
        async with asyncio.timeout(30), cpu_gate:
            pass

    asyncio.run(attempt())
