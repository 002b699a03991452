"""What one process does for all: hands queued segments over, and removes what is past its time. (DESIGN.md, 6)."""

from collections.abc import Callable
from typing import Final

from backend.runs.removals import Removals
from backend.runs.runtime_port import Runtime
from backend.runtime.engines.engine import Engine
from backend.runtime.scheduling.launcher import Launcher
from backend.runtime.scheduling.ticker import Ticker
from backend.runtime.scheduling.upkeep import Upkeep
from backend.services import Services
from backend.storage.objects import ObjectStore

_TICK_SECONDS: Final = 0.5
_UPKEEP_SECONDS: Final = 60
# Well within the time that callers give an answer.
_LONGEST_UPKEEP_SECONDS: Final = 20


class Dispatch:
    """Launcher, upkeep and removals; `most` gives how many segments the engine may hold.

    Several processes may dispatch beside one another: what is done twice is done once.
    """

    def __init__(
        self,
        services: Services,
        objects: ObjectStore,
        engine: Engine,
        most: Callable[[], int],
        runtime: Runtime,
        forget: Callable[[str], None],
    ) -> None:
        launcher = Launcher(services.database, services.clock, engine, most)
        self.launching = Ticker("launcher", launcher.launch, _TICK_SECONDS)
        self.removals = Removals(services.database, objects, forget)
        self.removing = Ticker("removals", self.removals.round, _UPKEEP_SECONDS)
        self._upkeep = Upkeep(services, runtime)
        self._keeping = Ticker("upkeep", self._upkeep.round, _UPKEEP_SECONDS)

    def start(self) -> None:
        """Takes up what is queued."""
        for ticker in (self.launching, self._keeping, self.removing):
            ticker.start()

    def stop(self) -> None:
        """Hands over nothing more, and ends what is going on; again is harmless."""
        self.launching.stop()
        self._upkeep.halt()
        self._keeping.stop()
        self.removals.halt()
        self.removing.stop()

    def upkeep(self) -> dict[str, int]:
        """Erases and deletes what is past its time; see `Runtime.upkeep`."""
        return self._upkeep.expire(_LONGEST_UPKEEP_SECONDS)
