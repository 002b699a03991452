from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backend.common.secrets import Secrets
from backend.services.dependencies import Services
from backend.services.notifications.notifier import Notifier
from backend.settings import NotificationSettings, NotificationTarget
from tests.services.conftest import TestClock
from tests.services.runs.world import World
from tests.support.smtp_server import MailServer, mail_server
from tests.support.webhook_receiver import Receiver, receiving

ALL_EVENTS = (
    "run.failed",
    "run.waiting_for_approval",
    "schedule.skipped",
    "schedule.failed",
    "certificate.expiring",
    "disk.low",
)


class NotifiedWorld(World):
    """Targets are added by `target`, and get messages from `notify` on."""

    def __init__(self, services: Services, clock: TestClock, folder: Path) -> None:
        self._environment: dict[str, str] = {}
        self._sources: dict[str, str] = {}
        secrets = Secrets(self._sources, self._environment)
        super().__init__(replace(services, secrets=secrets), clock, folder)
        self._targets: dict[str, NotificationTarget] = {}
        self._notifiers: list[Notifier] = []

    def target(self, name: str, url: str, kind: Any = "email", **fields: Any) -> None:
        self._environment[name.upper()] = url
        self._sources[name] = f"env:{name.upper()}"
        of_mail = {"sender": "service@example.org", "to": ("ops@example.org",)} if kind == "email" else {}
        self._targets[name] = NotificationTarget(kind, name, **({"events": ALL_EVENTS} | of_mail | fields))

    def notify(self, **fields: Any) -> Notifier:
        bounds: dict[str, Any] = {"private_networks": ("127.0.0.0/8",), "timeout_seconds": 5.0}
        given: dict[str, Any] = {"targets": dict(self._targets), "console_url": "https://console.example.org"}
        settings = NotificationSettings(**(given | bounds | fields))
        notifier = Notifier(self.services, settings, poll_seconds=0.1)
        self._notifiers.append(notifier)
        notifier.start()
        return notifier

    def stop(self) -> None:
        for notifier in self._notifiers:
            notifier.stop()
        self._notifiers.clear()

    def failed(self, workflow: str = "Plain", **fields: Any) -> str:
        """Starts a run that fails."""
        run_id = self.started(workflow, **fields)
        self.begin(run_id)
        assert self.close(run_id, "failed")
        return run_id


@pytest.fixture
def notified(services: Services, clock: TestClock, tmp_path: Path) -> Iterator[NotifiedWorld]:
    made = NotifiedWorld(services, clock, tmp_path)
    yield made
    made.stop()


@pytest.fixture
def mail() -> Iterator[MailServer]:
    with mail_server() as server:
        yield server


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver
