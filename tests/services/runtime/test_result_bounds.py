"""Results that take very long to judge by their schema harm no other run. (contract 25.9, 14.11)"""

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import grpc
import pytest

from backend.common.deployment_terms import CheckBounds
from backend.common.retry import Backoff
from backend.resources.schemas.content_checks import BEYOND_BOUNDS
from backend.resources.schemas.validator import SchemaValidator, ValidatorUnavailableError
from backend.runtime.execution import retries
from backend.services.dependencies import Services
from tests.services.calls import RefusedError
from tests.services.runtime.conftest import RuntimeWorld, agent_step, manifest
from tests.support.slow_schemas import SLOW_SCHEMA, SLOW_VALUE

AGENT = json.dumps(
    {
        "kind": "Agent",
        "name": "slow-result",
        "type": "python",
        "code": f"def run(context):\n    return {SLOW_VALUE[:1]!r} * {len(SLOW_VALUE)}\n",
    }
)
SLOW: dict[str, Any] = {"result": {"step": "main", "schema": SLOW_SCHEMA, "schema_version": "1"}}


@pytest.fixture
def bounds() -> CheckBounds:
    """An hour, so that nothing but what a test does ends a judgement."""
    return CheckBounds(cpu_seconds=3_600)


class WatchedJudge(SchemaValidator):
    """Says when it begins to judge a result."""

    def __init__(self, bounds: CheckBounds) -> None:
        super().__init__(bounds)
        self.judging = threading.Event()

    def mismatch(self, *given: Any, **named: Any) -> str | None:
        self.judging.set()
        return super().mismatch(*given, **named)


@pytest.fixture
def services(services: Services, bounds: CheckBounds) -> Iterator[Services]:
    judge = WatchedJudge(bounds)
    yield replace(services, schemas=judge)
    judge.close()


def claimed(world: RuntimeWorld, workflow: dict[str, Any] = SLOW) -> str:
    """A run whose result is being judged."""
    world.apply(AGENT)
    run_id = world.run("Slow", [agent_step("main", "slow-result")], workflow=workflow)
    judge = world.services.schemas
    assert isinstance(judge, WatchedJudge)
    assert judge.judging.wait(60)
    return run_id


@pytest.mark.parametrize("bounds", [CheckBounds(cpu_seconds=0.5)])
def test_a_result_that_cannot_be_judged_within_the_bounds_is_a_result_error(world: RuntimeWorld) -> None:
    run_id = claimed(world)
    row = world.until_ended(run_id)
    assert (row.status, row.result, row.result_error_code) == ("completed", None, "result_schema_mismatch")
    assert row.result_error_message == (
        "The result could not be judged by its schema within 0.5 seconds of processor time and 256 MB of memory."
    )
    assert row.result_size_bytes == len(json.dumps(SLOW_VALUE, separators=(",", ":")))


def test_a_result_is_judged_once_a_process_can_be_started(
    world: RuntimeWorld, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "RESOURCE", replace(retries.RESOURCE, backoff=Backoff(0.0, 0.0)))
    judge, tries = services.schemas, list[None]()
    mismatch = judge.mismatch

    def unavailable_once(*given: Any, **named: Any) -> str | None:
        tries.append(None)
        if len(tries) == 1:
            raise ValidatorUnavailableError
        return mismatch(*given, **named)

    monkeypatch.setattr(judge, "mismatch", unavailable_once)
    world.apply(AGENT)
    fitting = {"result": {"step": "main", "schema": {"type": "array"}, "schema_version": "1"}}
    row = world.until_ended(world.run("Judged", [agent_step("main", "slow-result")], workflow=fitting))
    assert (row.status, row.result_error_code, len(tries)) == ("completed", None, 2)


def test_an_apply_whose_schema_cannot_be_checked_now_may_be_retried(
    world: RuntimeWorld, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unavailable(*_: Any, **__: Any) -> str | None:
        raise ValidatorUnavailableError

    result = "result:\n  step: main\n  schema: {type: object}\n"
    text = f"kind: Workflow\nname: w\n{result}steps:\n  - {{step: main, agent: echo, environment: standard}}\n"
    with monkeypatch.context() as fault:
        fault.setattr(services.schemas, "schema_problem", unavailable)
        with pytest.raises(RefusedError) as refused:
            world.apply(text)
    assert refused.value.code is grpc.StatusCode.UNAVAILABLE
    assert world.apply(text)


def test_a_cancel_ends_the_judging_of_a_result(world: RuntimeWorld) -> None:
    run_id = claimed(world)
    world.cancel(run_id)
    row = world.until_ended(run_id)
    assert (row.status, row.outputs_count, row.result_error_code) == ("cancelled", 0, None)


def test_a_run_ends_at_its_time_limit_while_its_result_is_judged(world: RuntimeWorld) -> None:
    run_id = claimed(world, SLOW | {"settings": {"max_run_hours": 1}})
    world.clock.advance(seconds=3_600)
    assert world.until_ended(run_id).error_code == "wall_clock_limit_reached"


def test_the_end_of_the_service_ends_the_judging_of_a_result(world: RuntimeWorld) -> None:
    run_id = claimed(world)
    world.local_runtime.stop()
    assert world.row(run_id).error_code == "orphaned"
    world.services.schemas.close()
    assert world.services.schemas.pids == []


def test_another_keys_run_completes_beside_18_with_endless_result_checks(world: RuntimeWorld) -> None:
    world.key = world.new_key(name="hostile", max_concurrent_runs=18)
    claimed(world)
    hostile = [world.started("Slow") for _ in range(17)]
    world.workflows |= world.apply(manifest("Trivial", [agent_step("main")]))
    trivial = world.started("Trivial", key=world.new_key(name="another"))
    assert world.until_ended(trivial).status == "completed"
    assert {world.status(run_id) for run_id in hostile} <= {"queued", "running"}


@pytest.mark.parametrize("bounds", [CheckBounds(cpu_seconds=0.5)])
def test_a_schema_that_takes_too_long_to_check_is_refused_with_file_line_and_field(world: RuntimeWorld) -> None:
    slow = {"allOf": [{"pattern": f"(a{{500}}){{{400 + number}}}"} for number in range(800)]}
    result = f"result:\n  step: main\n  schema: {json.dumps(slow)}\n"
    text = f"kind: Workflow\nname: w\n{result}steps:\n  - {{step: main, agent: echo, environment: standard}}\n"
    with pytest.raises(RefusedError) as refused:
        world.apply(text)
    assert refused.value.problems == {
        "test.yaml:5: result.schema": "must be a JSON Schema that can be checked within 0.5 seconds of processor time "
        "and 256 MB of memory"
    }


def test_code_that_takes_too_much_to_compile_is_refused_with_file_line_and_field(world: RuntimeWorld) -> None:
    # Few lines, because YAML takes long over many.
    lines = ("  " + "x=1;" * 2**10 + "\n") * 2**10
    with pytest.raises(RefusedError) as refused:
        world.apply(f"kind: Agent\nname: large\ntype: python\ncode: |\n{lines}")
    assert refused.value.problems == {"test.yaml:4: code": BEYOND_BOUNDS.reason}
