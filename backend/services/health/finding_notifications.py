"""Notifications of findings: certificates and keys that expire soon, and disks with little space."""

from datetime import timedelta
from typing import Final

from backend.common.certificate_expiry import time_left
from backend.services.dependencies import Services
from backend.services.health import sql
from backend.services.health.rules import HealthFinding, of_certificates, of_disks
from backend.services.notifications.rules import NotificationEvent
from backend.services.notifications.sql import notify
from backend.storage.database import Tx
from backend.storage.outage import Ticker

ROUND_SECONDS: Final = 60.0

_KEY_SOON: Final = timedelta(days=7)


class FindingNotifier:
    """Looks for findings once a minute in every backend; each is sent once within the quiet time of its event."""

    def __init__(self, services: Services) -> None:
        self._services = services
        # A certificate or a disk is in the reports of processes, the first of which come a second after the start.
        self._ticker = Ticker("notifications of findings", self.round, ROUND_SECONDS, first_seconds=5.0)

    def start(self) -> None:
        """Starts the thread of the rounds."""
        self._ticker.start()

    def stop(self) -> None:
        """Ends the thread after the present round."""
        self._ticker.stop()

    def round(self) -> None:
        """Writes the notifications of the present findings."""
        now = self._services.clock()
        database = self._services.database
        processes = database.read(sql.all_processes)
        until = now + round(_KEY_SOON / timedelta(milliseconds=1))
        keys = database.read(lambda tx: sql.keys_that_expire(tx, now, until))
        found: list[HealthFinding] = [*of_certificates(processes, now), *of_disks(processes, now)]
        if not found and not keys:
            return

        def work(tx: Tx) -> None:
            tx.keeps_caches_valid = True
            for each in found:
                if each.event is not None:
                    notify(tx, each.event, each.subject, {"message": each.message}, now)
            for key in keys:
                left = time_left(timedelta(milliseconds=key.expires_at - now))
                message = f"The key {key.name} ({key.key_id}) expires in {left}."
                notify(tx, NotificationEvent.KEY_EXPIRING, key.key_id, {"message": message}, now)

        # One lock lets only one of several backends write.
        database.write(work, lock_key="notifications")
