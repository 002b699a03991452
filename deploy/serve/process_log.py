"""The log lines that a process serves, and that it begins to stop."""

import threading
from typing import Final

from contract.versions import RELEASE
from telemetry.log_events import PROCESS

_served: Final = threading.Event()


def log_serving(
    *, base_address: str | None = None, console: str | None = None, grpc: str | None = None, metrics: str | None = None
) -> None:
    """Logs that this process serves, at these addresses of its own."""
    _served.set()
    addresses = {"base_address": base_address, "console": console, "grpc": grpc, "metrics": metrics}
    PROCESS.write(f"serving, release {RELEASE}", {"to": "serving", "release": RELEASE, **addresses})


def log_stopping() -> None:
    """Logs that this process was told to stop, and ends what is under way; nothing where it has not served."""
    if _served.is_set():
        PROCESS.write("stopping", {"to": "stopping", "release": RELEASE})
