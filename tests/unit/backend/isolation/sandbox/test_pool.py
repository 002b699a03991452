import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from backend.isolation.sandbox import Limits, Readable, Sandbox, choose_sandbox
from backend.isolation.sandbox.process import StepProcess
from backend.runtime.agents import run_python_step
from tests.support.answers import value_in_process
from tests.unit.backend.isolation.sandbox.layers import opened
from tests.unit.backend.isolation.sandbox.steps import LIMITS, Steps, eventually


@pytest.fixture(params=["bwrap", "landlock", "none"])
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    if request.param != "none":
        with opened(request.param):
            pass
    sandbox = choose_sandbox(request.param, warm=2)
    yield sandbox
    sandbox.close()


def waiting(sandbox: Sandbox, limits: Limits = LIMITS) -> list[StepProcess]:
    return sandbox.pool.waiting(limits)


def fill(sandbox: Sandbox, limits: Limits = LIMITS) -> list[StepProcess]:
    sandbox.prepare(limits)
    assert eventually(lambda: len(waiting(sandbox, limits)) == 2)
    return waiting(sandbox, limits)


def test_a_prepared_environment_starts_warm_and_is_refilled(sandbox: Sandbox, tmp_path: Path) -> None:
    first, second = fill(sandbox)
    steps = Steps(sandbox, tmp_path)
    request = steps.request("def run(context): return 1")

    async def run_and_await_the_refill() -> bool:
        await run_python_step(sandbox, request, steps.on_progress, value_in_process)
        return await asyncio.to_thread(eventually, lambda: len(waiting(sandbox)) == 2)

    assert asyncio.run(run_and_await_the_refill())
    # Its descriptors are closed, and may be those of the sandbox that replaces it.
    assert first not in sandbox.open_processes
    assert waiting(sandbox)[0] is second


def test_a_sandbox_that_was_the_last_is_replaced_at_once(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backend.isolation.sandbox.sandbox.REFILL_SECONDS", 3600.0)
    fill(sandbox)
    for _ in range(2):
        assert Steps(sandbox, tmp_path).run("def run(context): return 1") == 1
    assert eventually(lambda: len(waiting(sandbox)) == 2)


def test_environments_of_another_workspace_do_not_share(sandbox: Sandbox, tmp_path: Path) -> None:
    kept = fill(sandbox)
    other = Limits(LIMITS.memory_mb, LIMITS.timeout_seconds, LIMITS.workspace_mb + 1)
    Steps(sandbox, tmp_path).run("def run(context): return 1", limits=other)
    assert waiting(sandbox) == kept


def test_environments_of_another_network_do_not_share(sandbox: Sandbox, tmp_path: Path) -> None:
    kept = fill(sandbox)
    Steps(sandbox, tmp_path).run("def run(context): return 1", limits=replace(LIMITS, network="full"))
    assert waiting(sandbox) == kept


def test_limits_that_come_with_the_request_hold_in_a_warm_sandbox(sandbox: Sandbox, tmp_path: Path) -> None:
    first = fill(sandbox)[0]
    code = "import resource\ndef run(context): return resource.getrlimit(resource.RLIMIT_AS)[0]"
    small = Limits(256, LIMITS.timeout_seconds, LIMITS.workspace_mb)
    assert Steps(sandbox, tmp_path).run(code, limits=small) == 256 * 1024 * 1024
    assert not first.alive


def test_a_run_with_inputs_starts_cold(sandbox: Sandbox, tmp_path: Path) -> None:
    kept = fill(sandbox)
    (tmp_path / "inputs").mkdir()
    Steps(sandbox, tmp_path).run("def run(context): return 1", inputs=tmp_path / "inputs")
    assert waiting(sandbox) == kept


def test_a_sandbox_that_died_while_it_waited_is_not_used(sandbox: Sandbox, tmp_path: Path) -> None:
    kept = fill(sandbox)
    for process in kept:
        process.kill()
    assert eventually(lambda: not any(process.alive for process in kept))
    assert Steps(sandbox, tmp_path).run("def run(context): return 1") == 1


def test_only_the_environments_used_last_are_kept(sandbox: Sandbox) -> None:
    sizes = [Limits(1024, 60, size) for size in range(10, 16)]
    for limits in sizes:
        fill(sandbox, limits)
    assert [len(waiting(sandbox, limits)) for limits in sizes] == [0, 0, 2, 2, 2, 2]
    assert eventually(lambda: len(sandbox.open_processes) == 8)


def test_close_ends_what_waits(bwrap: Sandbox) -> None:
    sandbox = choose_sandbox("bwrap", warm=2)
    kept = fill(sandbox)
    sandbox.close()
    assert not any(process.alive for process in kept)
    assert not sandbox.open_processes


def test_a_start_that_is_cancelled_leaves_no_process(sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "inputs").mkdir()

    async def cancel_a_start() -> None:
        starting = asyncio.create_task(sandbox.start(LIMITS, Readable(tmp_path / "inputs")))
        await asyncio.sleep(0)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting

    for _ in range(10):
        asyncio.run(cancel_a_start())
    assert eventually(lambda: not sandbox.open_processes)
