from collections.abc import Iterator
from pathlib import Path

import pytest

from backend.isolation.sandbox import Sandbox, choose_sandbox
from tests.unit.backend.isolation.sandbox.layers import LAYERS, allow_long_answers, opened
from tests.unit.backend.isolation.sandbox.steps import Steps


@pytest.fixture(autouse=True)
def _long_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    allow_long_answers(monkeypatch)


@pytest.fixture(autouse=True)
def _no_authorities(no_authorities: None) -> None:
    """Makes clients of models faster to create."""


@pytest.fixture(scope="session", params=["bwrap"])
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """The usual layer; tests of what differs by layer are marked with `in_every_layer`."""
    if request.param in LAYERS:
        with opened(request.param) as sandbox:
            yield sandbox
    else:
        sandbox = choose_sandbox(request.param, warm=0)
        yield sandbox
        sandbox.close()


@pytest.fixture
def steps(sandbox: Sandbox, tmp_path: Path) -> Steps:
    return Steps(sandbox, tmp_path)
