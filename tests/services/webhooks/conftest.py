from collections.abc import Iterator
from pathlib import Path

import pytest

from backend.services.dependencies import Services
from tests.services.conftest import TestClock
from tests.services.webhooks.hooked import WebhookWorld
from tests.support.webhook_receiver import Receiver, receiving


@pytest.fixture
def hooked(services: Services, clock: TestClock, tmp_path: Path) -> Iterator[WebhookWorld]:
    made = WebhookWorld(services, clock, tmp_path)
    yield made
    made.stop()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver
