from collections.abc import Iterator
from pathlib import Path

import pytest

from backend.sandbox import Sandbox
from tests.unit.backend.sandbox.layers import LAYERS, NAMESPACED, each, opened
from tests.unit.backend.sandbox.steps import Steps


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
