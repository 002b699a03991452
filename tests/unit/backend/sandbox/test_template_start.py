"""Starts of templates that fail in ways that nobody foresaw."""

from collections.abc import Iterator

import pytest

from backend.sandbox import Sandbox, interpreter
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

    templates = sandbox._templates
    with monkeypatch.context() as upgrade:
        upgrade.setattr(interpreter, "executable", missing)
        assert templates.forked(LIMITS) is None
        until(lambda: not templates._starting, "the end of the start")
    forked = until(lambda: templates.forked(LIMITS), "a template")
    assert forked is not None
    step = forked.result(LONGEST_WAIT_SECONDS)
    step.end()
    step.close()
