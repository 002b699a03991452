from collections.abc import Iterator
from pathlib import Path

import pytest

from backend.isolation.sandbox import Sandbox
from tests.unit.backend.isolation.sandbox.layers import LAYERS, NAMESPACED, allow_long_answers, each, opened
from tests.unit.backend.isolation.sandbox.steps import Steps


@pytest.fixture(autouse=True)
def _long_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    allow_long_answers(monkeypatch)


@pytest.fixture(scope="session", params=each(NAMESPACED))
def namespaced(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    with opened(request.param) as sandbox:
        yield sandbox


@pytest.fixture(scope="session")
def bwrap() -> Iterator[Sandbox]:
    with opened("bwrap") as sandbox:
        yield sandbox


@pytest.fixture(scope="session", params=each(LAYERS))
def layer(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    with opened(request.param) as sandbox:
        yield sandbox


@pytest.fixture
def isolated(namespaced: Sandbox, tmp_path: Path) -> Steps:
    """Steps in namespaces, in which other files and processes do not exist."""
    return Steps(namespaced, tmp_path)


@pytest.fixture
def confined(layer: Sandbox, tmp_path: Path) -> Steps:
    """Steps in any isolating layer."""
    return Steps(layer, tmp_path)


@pytest.fixture(params=each(["bwrap", "bwrap, user namespace"]))
def forking(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Steps]:
    """Steps that are forked from templates of this test alone."""
    with opened(request.param) as sandbox:
        yield Steps(sandbox, tmp_path)
