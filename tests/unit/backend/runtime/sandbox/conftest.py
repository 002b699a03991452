from collections.abc import Iterator
from pathlib import Path

import pytest

from backend.runtime.sandbox import Sandbox, SandboxUnavailableError, choose_sandbox
from tests.unit.backend.runtime.sandbox.steps import Steps


@pytest.fixture(scope="session")
def bwrap() -> Iterator[Sandbox]:
    try:
        sandbox = choose_sandbox("bwrap", warm=0)
    except SandboxUnavailableError as error:
        pytest.skip(f"bubblewrap is needed ({error}): install the package `bubblewrap`")
    yield sandbox
    sandbox.close()


@pytest.fixture
def isolated(bwrap: Sandbox, tmp_path: Path) -> Steps:
    return Steps(bwrap, tmp_path)
