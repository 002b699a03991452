"""Removes what runs that ended elsewhere left on this machine's disk."""

import shutil
import threading
from pathlib import Path
from typing import Final

from backend.runtime.scheduling.sql import in_flight
from backend.runtime.ticker import Ticker
from backend.storage.database import Database

_SECONDS: Final = 60


class LeftoverRemoval:
    """Removes from a work folder what belongs to runs that ended while no segment of theirs ran here."""

    def __init__(self, database: Database, work: Path) -> None:
        self._database = database
        self._work = work
        self._halted = threading.Event()
        self._ticker = Ticker("tidy", self.round, _SECONDS)

    def start(self) -> None:
        """Starts its thread, with a round at once."""
        self._ticker.start()

    def halt(self) -> None:
        """Ends the present round soon; from any thread."""
        self._halted.set()

    def stop(self) -> None:
        """Ends its thread; may be repeated."""
        self.halt()
        self._ticker.stop()

    def round(self) -> None:
        """Removes what is there now."""
        folders = list(self._work.iterdir())
        kept = self._database.read(in_flight) if folders else set()
        for folder in folders:
            if folder.name not in kept and not self._halted.is_set():
                shutil.rmtree(folder, ignore_errors=True)
