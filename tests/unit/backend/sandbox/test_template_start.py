"""Starts of templates that fail in ways that nobody foresaw."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from backend.sandbox import Packages, Sandbox, interpreter, templates
from backend.sandbox.layer import SandboxUnavailableError
from tests.support.poll import LONGEST_WAIT_SECONDS, until
from tests.unit.backend.sandbox.layers import opened
from tests.unit.backend.sandbox.steps import LIMITS


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    with opened("bwrap") as sandbox:
        yield sandbox


def test_a_start_without_an_interpreter_is_tried_again_once_there_is_one(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise SandboxUnavailableError("there is no interpreter")

    found = sandbox._templates
    with monkeypatch.context() as upgrade:
        upgrade.setattr(interpreter, "executable", missing)
        assert found.forked(LIMITS) is None
        until(lambda: not found._starting, "the end of the start")
    forked = until(lambda: found.forked(LIMITS), "a template")
    assert forked is not None
    step = forked.result(LONGEST_WAIT_SECONDS)
    step.end()
    step.close()


def test_the_failures_of_so_many_environments_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "_MOST_POLICIES", 2)
    limits = [replace(LIMITS, packages=Packages(Path(f"/packages-{number}"))) for number in range(3)]
    with opened("bwrap, not forked") as sandbox:
        for each in limits:
            assert sandbox._templates.forked(each) is None
            until(lambda: not sandbox._templates._starting, "the refusal")
        assert list(sandbox._templates._policies) == [each.of_template for each in limits[1:]]
