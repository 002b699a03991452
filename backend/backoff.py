"""When something that failed is tried again: after a second, then each time twice as long, up to five minutes."""

from collections.abc import Collection
from typing import Final

from backend.clock import Clock

_FIRST_MS: Final = 1_000
_LONGEST_MS: Final = 300_000


class Pauses:
    """Pauses by the name of what failed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pauses: dict[str, tuple[int, int]] = {}

    def over(self, name: str) -> bool:
        """Whether it may be tried."""
        return self._clock() >= self._pauses.get(name, (0, 0))[1]

    def begin(self, name: str) -> int:
        """Notes that it failed; gives the seconds until it may be tried again."""
        pause = min(2 * self._pauses.get(name, (_FIRST_MS // 2, 0))[0], _LONGEST_MS)
        self._pauses[name] = pause, self._clock() + pause
        return pause // 1000

    def keep(self, names: Collection[str]) -> None:
        """Forgets all but these."""
        self._pauses = {name: pause for name, pause in self._pauses.items() if name in names}
