"""Log lines and a metric about the end of the certificate that a part presents to others."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from backend.common.certificate_expiry import SOON, VERY_SOON
from telemetry import Family, Gauge, MetricsRegistry
from telemetry.outages import RepeatedWork

if TYPE_CHECKING:
    # Imported for typing only, because parts without a certificate need no cryptography.
    from deploy.transport.certificates import CertificateFiles

EXPIRES: Final = Gauge(
    "certificate_expires_seconds", "Time until the certificate of a part expires; negative once it has.", ("part",)
)

_PAUSE_SECONDS: Final = 15.0
_FIRST_SECONDS: Final = 2.0

_LOG = logging.getLogger(__name__)


class CertificateWatch:
    """Logs once each that a certificate expires soon, very soon, has expired, or was replaced."""

    def __init__(self, part: str, files: "CertificateFiles") -> None:
        self._part = part
        self._files = files
        self._stage = 0

    def check(self) -> None:
        """Checks the current certificate."""
        expires_at = self._files.current().expires_at
        left = expires_at - datetime.now(UTC)
        stage = sum(left < bound for bound in (SOON, VERY_SOON, timedelta()))
        if stage == self._stage:
            return
        if stage > self._stage:
            level = logging.ERROR if left < VERY_SOON else logging.WARNING
            what = "has expired: new connections fail" if left < timedelta() else "expires soon"
            _LOG.log(level, "The certificate of the %s %s (%s)", self._part, what, f"{expires_at:%Y-%m-%dT%H:%M:%SZ}")
        else:
            until = f"{expires_at:%Y-%m-%dT%H:%M:%SZ}"
            _LOG.warning("The certificate of the %s was replaced; it is valid until %s", self._part, until)
        self._stage = stage

    def measured(self) -> list[Family]:
        """Returns the time left as a metric. Thread-safe."""
        left = self._files.current().expires_at - datetime.now(UTC)
        return [EXPIRES.with_values({(self._part,): left.total_seconds()})]


@contextmanager
def watched_certificate(part: str, files: "CertificateFiles | None", metrics: MetricsRegistry) -> Iterator[None]:
    """Watches the certificate of a part while the context lasts; None for a part without one."""
    if files is None:
        with metrics.registered(lambda: [EXPIRES.with_values({})]):
            yield
        return
    watch, ended = CertificateWatch(part, files), threading.Event()
    checks = RepeatedWork(_LOG, "The watch of the certificate fails", "The watch of the certificate goes on")

    def run() -> None:
        # Delayed, so that a failing start reports its reason first.
        pause = _FIRST_SECONDS
        while not ended.wait(pause):
            pause = _PAUSE_SECONDS
            try:
                watch.check()
            except Exception as error:  # noqa: BLE001 - whatever it is, the next check may succeed
                checks.failed(error)
            else:
                checks.succeeded()

    thread = threading.Thread(target=run, name="certificate-watch", daemon=True)
    thread.start()
    try:
        with metrics.registered(watch.measured):
            yield
    finally:
        ended.set()
        thread.join()
