"""Starts of templates that fail in ways that nobody foresaw."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from backend.isolation.sandbox import Sandbox, StepPackages, interpreter, pool
from backend.isolation.sandbox.layer import SandboxUnavailableError
from backend.isolation.sandbox.limits import Limits
from tests.support.poll import LONGEST_WAIT_SECONDS, until
from tests.unit.backend.isolation.sandbox.layers import await_start, opened
from tests.unit.backend.isolation.sandbox.steps import LIMITS


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    with opened("bwrap") as sandbox:
        yield sandbox


def test_a_start_without_an_interpreter_is_tried_again_once_there_is_one(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise SandboxUnavailableError("there is no interpreter")

    found = sandbox.templates
    with monkeypatch.context() as upgrade:
        upgrade.setattr(interpreter, "executable", missing)
        assert found.forked(LIMITS) is None
        await_start(sandbox, LIMITS)
    forked = until(lambda: found.forked(LIMITS), "a template")
    assert forked is not None
    step = forked.result(LONGEST_WAIT_SECONDS)
    step.end()
    step.close()


def test_the_failures_of_so_many_environments_are_noted(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one noted first is forgotten, and a start is tried again for it."""
    launched: list[Limits] = []
    monkeypatch.setattr(sandbox.layer, "launch_template", launched.append)
    monkeypatch.setattr(pool, "MOST_POLICIES", 2)
    limits = [replace(LIMITS, packages=StepPackages(Path(f"/packages-{number}"))) for number in range(3)]
    for each in (*limits, *reversed(limits)):
        assert sandbox.templates.forked(each) is None
        await_start(sandbox, each)
    assert launched == [*limits, limits[0]]
