"""The log of a serving process, which follows `log_level` and `log_format` in the settings file without a restart.

Each process checks the file by itself, which also covers several processes, and files replaced as a whole, as by
Kubernetes.
"""

import logging
import os
import threading
from pathlib import Path
from typing import Final

from contract.versions import RELEASE
from deploy.config.checks import parse_log_levels
from deploy.config.settings import Settings
from deploy.config.source import read_settings
from deploy.failures import CommandError
from telemetry.log_events import PROCESS
from telemetry.logs import ProcessLog

_CHECK_SECONDS: Final = 2.0

_LOG = logging.getLogger(__name__)

_served: Final = threading.Event()


def open_log(settings: Settings, part: str) -> None:
    """Configures logging to standard error; `part` names this process in each line."""
    follower = LogFollower(settings, part)
    if settings.source.config is not None:
        threading.Thread(target=follower.follow, args=(threading.Event(),), name="log-settings", daemon=True).start()


class LogFollower:
    """Configures the log of this process by the settings, and again when their file has changed."""

    def __init__(self, settings: Settings, part: str) -> None:
        self._source = settings.source
        self._current = settings.log_level, settings.log_format
        self._state = self._file_state()
        colour = not os.environ.get("NO_COLOR")
        self._log = ProcessLog(part, parse_log_levels(settings.log_level), settings.log_format, colour=colour)

    def follow(self, ended: threading.Event) -> None:
        """Checks the file every two seconds, until `ended`; logs a failure once, and goes on."""
        fails = False
        while not ended.wait(_CHECK_SECONDS):
            try:
                self.apply_changes()
            except Exception:  # noqa: BLE001 - whatever it is, a later try may succeed
                if not fails:
                    _LOG.exception("The settings file cannot be read, and the log stays as it is until it can be")
                fails = True
            else:
                fails = False

    def apply_changes(self) -> None:
        """Applies levels and format of the file if it has changed and is valid."""
        state = self._file_state()
        if state is None or state == self._state:
            return
        try:
            settings = read_settings(os.environ, config=self._source.config, given=self._source.given)
        except CommandError as error:
            names = ", ".join(detail["name"] for detail in error.details or [])
            _LOG.warning(
                "The settings file has changed and is not valid, the log stays as it is: %s", names or error.code
            )
            self._state = state
            return
        changed = settings.log_level, settings.log_format
        if changed != self._current:
            self._log.change(parse_log_levels(settings.log_level), settings.log_format)
            self._current = changed
            _LOG.warning("The log has changed: level %s, format %s", *changed)
        self._state = state

    def _file_state(self) -> tuple[int, int, int] | None:
        """Returns figures that change with the file; None if it cannot be read now."""
        try:
            found = Path(self._source.config or os.devnull).stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size


def log_serving(
    *, base_address: str | None = None, console: str | None = None, grpc: str | None = None, metrics: str | None = None
) -> None:
    """Logs that this process serves, with its addresses."""
    _served.set()
    addresses = {"base_address": base_address, "console": console, "grpc": grpc, "metrics": metrics}
    PROCESS.write(f"serving, release {RELEASE}", {"to": "serving", "release": RELEASE, **addresses})


def log_stopping() -> None:
    """Logs that this process was told to stop, and finishes its work; nothing if it has not served."""
    if _served.is_set():
        PROCESS.write("stopping", {"to": "stopping", "release": RELEASE})
