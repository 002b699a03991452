"""What one process does for the whole deployment: hands queued segments over, and removes what is past its time."""

from typing import Final

from backend.runs.removals import Removals
from backend.runtime.scheduling.launcher import Launcher
from backend.runtime.scheduling.upkeep import Upkeep
from backend.runtime.ticker import Ticker

_LAUNCH_SECONDS: Final = 0.5
_UPKEEP_SECONDS: Final = 60
# Its rules are a dozen changes, which a start can do without.
_FIRST_UPKEEP_SECONDS: Final = 2
# Well within the time that callers give an answer.
_LONGEST_UPKEEP_SECONDS: Final = 20


class Dispatcher:
    """Threads of the launcher, the upkeep and the removals.

    Several processes may dispatch side by side: what two of them do takes effect once.
    """

    def __init__(self, launcher: Launcher, upkeep: Upkeep, removals: Removals) -> None:
        self._launcher = launcher
        self.launching = Ticker("launcher", launcher.launch, _LAUNCH_SECONDS)
        self.removals = removals
        self.removing = Ticker("removals", removals.round, _UPKEEP_SECONDS)
        self._upkeep = upkeep
        self._keeping = Ticker("upkeep", upkeep.round, _UPKEEP_SECONDS, _FIRST_UPKEEP_SECONDS)

    def start(self) -> None:
        """Starts the threads."""
        for ticker in (self.launching, self._keeping, self.removing):
            ticker.start()

    def stop(self) -> None:
        """Hands over nothing more, and ends what is going on; may be repeated."""
        self.launching.stop()
        self._upkeep.halt()
        self._keeping.stop()
        self.removals.halt()
        self.removing.stop()

    def has_room(self, executed: int) -> bool:
        """Returns whether a segment more may begin beside those executed, and none waits; see `Launcher.has_room`."""
        return self._launcher.has_room(executed)

    def segment_ended(self) -> None:
        """Hands over a segment that waits for room, if there may be one: most ends would only cost a round."""
        if self._launcher.waits:
            self.launching.wake()

    def upkeep(self) -> dict[str, int]:
        """Deletes what is past its time; see `Runtime.upkeep`."""
        return self._upkeep.expire(_LONGEST_UPKEEP_SECONDS)
