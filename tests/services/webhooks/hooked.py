"""A world with the webhooks service, and deliverers that a test starts and stops."""

from pathlib import Path
from typing import Any

from backend.common.clock import Clock
from backend.services.dependencies import Services
from backend.services.webhooks.deliverer import Deliverer
from backend.services.webhooks.servicer import WebhooksServicer
from backend.settings import WebhookSettings
from tests.services.calls import Caller
from tests.services.conftest import TestClock
from tests.services.runs.world import World
from tests.support.poll import until
from tests.support.webhook_receiver import Receiver
from workflow_api.v1 import webhooks_pb2

PENDING = webhooks_pb2.WEBHOOK_DELIVERY_STATE_PENDING
DELIVERED = webhooks_pb2.WEBHOOK_DELIVERY_STATE_DELIVERED
FAILED = webhooks_pb2.WEBHOOK_DELIVERY_STATE_FAILED
LOOPBACK = WebhookSettings(private_networks=("127.0.0.0/8",), timeout_seconds=5)


class WebhookWorld(World):
    """`webhooks` calls the service; messages are delivered between `deliver` and `stop`."""

    def __init__(
        self, services: Services, clock: TestClock, folder: Path, settings: WebhookSettings = LOOPBACK
    ) -> None:
        super().__init__(services, clock, folder)
        self.settings = settings
        servicer = WebhooksServicer(services, settings)
        self.webhooks = Caller(servicer, webhooks_pb2.DESCRIPTOR.services_by_name["WebhooksService"])
        self._deliverers: list[Deliverer] = []

    def hook(self, url: str, **fields: Any) -> webhooks_pb2.WebhookWithSecret:
        """Creates a webhook of the world's key."""
        request = webhooks_pb2.CreateWebhookRequest(**({"key_id": self.key, "url": url} | fields))
        made: webhooks_pb2.WebhookWithSecret = self.webhooks("CreateWebhook", request)
        return made

    def show(self, webhook_id: str) -> webhooks_pb2.Webhook:
        shown: webhooks_pb2.Webhook = self.webhooks("GetWebhook", webhooks_pb2.GetWebhookRequest(webhook_id=webhook_id))
        return shown

    def deliveries(self, webhook_id: str) -> list[webhooks_pb2.WebhookDelivery]:
        """The newest deliveries, oldest first."""
        request = webhooks_pb2.ListWebhookDeliveriesRequest(webhook_id=webhook_id)
        return list(reversed(self.webhooks("ListWebhookDeliveries", request).items))

    def deliver(
        self, settings: WebhookSettings | None = None, *, poll_seconds: float = 0.1, clock: Clock | None = None
    ) -> Deliverer:
        """Starts a deliverer; it polls often, as it does not hear of steps of the clock."""
        deliverer = Deliverer(self.services.database, clock or self.clock, settings or self.settings, poll_seconds)
        self._deliverers.append(deliverer)
        deliverer.start()
        return deliverer

    def attempted(self, webhook_id: str, attempts: int) -> webhooks_pb2.WebhookDelivery:
        """Waits until what came of so many attempts of the oldest delivery is recorded, and returns it."""

        def recorded() -> webhooks_pb2.WebhookDelivery | None:
            oldest = self.dump(f"webhook_deliveries WHERE webhook_id = '{webhook_id}' ORDER BY message_id")[0]
            return self.deliveries(webhook_id)[0] if (oldest.attempts, oldest.claim) == (attempts, None) else None

        found = until(recorded, f"attempt {attempts}")
        assert found is not None
        return found

    def stop(self) -> None:
        for deliverer in self._deliverers:
            deliverer.stop()
        self._deliverers.clear()


def arrived(receiver: Receiver, count: int) -> list[str]:
    """Waits until so many messages arrived, and returns their types."""
    until(lambda: len(receiver.received) >= count, f"{count} messages")
    return receiver.types
