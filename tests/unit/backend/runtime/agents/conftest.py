from collections.abc import Iterator
from pathlib import Path

import pytest

from backend.runtime.sandbox import Sandbox, SandboxUnavailableError, choose_sandbox
from tests.unit.backend.runtime.sandbox.steps import Steps


@pytest.fixture(scope="session", params=["bwrap", "none"])
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    try:
        sandbox = choose_sandbox(request.param, warm=0)
    except SandboxUnavailableError as error:
        pytest.skip(f"bubblewrap is needed ({error}): install the package `bubblewrap`")
    yield sandbox
    sandbox.close()


@pytest.fixture
def steps(sandbox: Sandbox, tmp_path: Path) -> Steps:
    return Steps(sandbox, tmp_path)
