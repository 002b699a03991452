"""Return values that take far more memory than their text harm no other run. (contract 25.18)"""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from backend.common import json_text
from backend.common.deployment_terms import CheckBounds
from backend.resources.schemas.validator import SchemaValidator
from backend.services.dependencies import Services
from tests.services.runtime.conftest import RuntimeWorld, agent_step

SIZE = 40_000
AGENTS = [
    {
        "kind": "Agent",
        "name": "large",
        "type": "python",
        "code": f"def run(context):\n    return {{'items': [{{}}] * {SIZE}, 'summary_markdown': 'short'}}\n",
    },
    {
        "kind": "Agent",
        "name": "counts",
        "type": "python",
        "code": "def run(context):\n    return len(context.needs['main']['items'])\n",
    },
]
STEPS = [agent_step("main", "large"), agent_step("last", "counts", needs=["main"])]


@pytest.fixture
def bounds() -> CheckBounds:
    return CheckBounds()


@pytest.fixture
def services(services: Services, bounds: CheckBounds) -> Iterator[Services]:
    judge = SchemaValidator(bounds)
    yield replace(services, schemas=judge)
    judge.close()


def longest(value: Any) -> int:
    """The length of the longest list in a value."""
    within = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return max([len(value) if isinstance(value, list) else 0, *map(longest, within)])


@pytest.fixture
def world(world: RuntimeWorld, monkeypatch: pytest.MonkeyPatch) -> RuntimeWorld:
    """One in whose process no large value is parsed."""
    parse = json.loads

    def small_only(text: str | bytes, *given: Any, **named: Any) -> Any:
        value = parse(text, *given, **named)
        assert longest(value) < SIZE
        return value

    world.apply("\n---\n".join(map(json.dumps, AGENTS)))
    monkeypatch.setattr(json, "loads", small_only)
    return world


@pytest.mark.parametrize("mode", ["off", "redact"])
def test_a_large_value_is_passed_on_and_stored_without_being_parsed_in_the_service(
    world: RuntimeWorld, mode: str
) -> None:
    workflow = {"result": {"step": "last"}, "pii_policy": {"mode": mode, "stages": ["steps"]}}
    row = world.until_ended(world.run("Large", STEPS, workflow=workflow))
    assert (row.status, row.result) == ("completed", str(SIZE))


def test_a_large_result_is_judged_and_its_summary_read_without_being_parsed_in_the_service(world: RuntimeWorld) -> None:
    workflow = {"result": {"step": "main", "schema": {"type": "object", "required": ["items"]}}}
    row = world.until_ended(world.run("Large", STEPS[:1], workflow=workflow))
    assert (row.status, row.result_error_code, row.summary_markdown) == ("completed", None, "short")
    assert row.result_size_bytes > json_text.LARGEST_SHARED


@pytest.mark.parametrize("bounds", [CheckBounds(memory_mb=1)])
def test_a_value_that_cannot_be_read_within_the_bounds_fails_its_step(world: RuntimeWorld) -> None:
    row = world.until_ended(world.run("Large", STEPS))
    assert (row.status, row.error_code) == ("failed", "node_failed")
    assert row.error_message == (
        "Step 'main' failed: the return value cannot be read within 5 seconds of processor time and 1 MB of memory"
    )
