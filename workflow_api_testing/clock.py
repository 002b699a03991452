"""A clock that a test steps."""

from typing import Final

_START_MS: Final = 1_790_000_000_000


class SteppedClock:
    """The time of a backend under test; it stands still until `advance` is called.

    `now` is in milliseconds since the epoch, and begins at 2026-09-21 14:13:20 UTC.
    """

    # Modules of tests may import it under a name that begins with `Test`.
    __test__ = False

    def __init__(self) -> None:
        self.now = _START_MS

    def __call__(self) -> int:
        """Returns the present time in milliseconds since the epoch."""
        return self.now

    def advance(self, *, seconds: float = 0, hours: float = 0, days: float = 0) -> None:
        """Moves the time on."""
        self.now += round((seconds + hours * 3_600 + days * 86_400) * 1_000)
