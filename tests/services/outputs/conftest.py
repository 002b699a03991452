from pathlib import Path

import pytest

from backend.services.dependencies import Services
from tests.services.conftest import TestClock
from tests.services.runs.world import World


@pytest.fixture
def world(services: Services, clock: TestClock, tmp_path: Path) -> World:
    return World(services, clock, tmp_path)
