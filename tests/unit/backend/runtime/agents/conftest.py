from collections.abc import Iterator
from pathlib import Path

import pytest

from backend.sandbox import Sandbox, choose_sandbox
from tests.unit.backend.sandbox.layers import LAYERS, opened
from tests.unit.backend.sandbox.steps import Steps

_OTHERS = (pytest.param(name, marks=pytest.mark.long) for name in ("landlock", "landlock, service's user", "none"))


@pytest.fixture(scope="session", params=["bwrap", *_OTHERS])
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
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
