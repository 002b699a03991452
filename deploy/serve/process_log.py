"""The log lines that a process serves, and that it begins to stop."""

from contract.versions import RELEASE
from telemetry.log_events import PROCESS


def log_serving(
    *, base_address: str | None = None, console: str | None = None, grpc: str | None = None, metrics: str | None = None
) -> None:
    """Logs that this process serves, at these addresses of its own."""
    addresses = {"base_address": base_address, "console": console, "grpc": grpc, "metrics": metrics}
    PROCESS.write(f"serving, release {RELEASE}", {"to": "serving", "release": RELEASE, **addresses})


def log_stopping() -> None:
    """Logs that this process was told to stop, and ends what is under way."""
    PROCESS.write("stopping", {"to": "stopping", "release": RELEASE})
