"""Changes the packages of an environment: each change names a release that no machine has built."""

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tests.faults.calls import Calls
from tests.faults.plan import Operation
from tests.faults.releases import ENVIRONMENT, make_release, requirement

# Of the releases, whose wheel is another one by the time that it is built.
_SPOILED: Final = 0.25


class Packages:
    """Operations on the environment, of which one at a time changes it."""

    def __init__(self, calls: Calls, wheels: Path) -> None:
        self._calls = calls
        self._wheels = wheels
        self._changing = threading.Lock()
        self.operations: Mapping[str, Callable[[Operation], bool]] = {
            "change_environment": self._change,
            "read_environment": self._read,
        }

    def _change(self, operation: Operation) -> bool:
        if not self._changing.acquire(blocking=False):
            return False
        try:
            release = f"1.{operation.number}"
            make_release(self._wheels, release)
            changed = self._calls.change_environment(ENVIRONMENT, requirement(release), _backend(operation))
            if changed and operation.chances[1] < _SPOILED:
                # Its hash is not the one of the lock, unless it is built already.
                make_release(self._wheels, release, "SPOILED = True\n")
            return changed
        finally:
            self._changing.release()

    def _read(self, operation: Operation) -> bool:
        return self._calls.environment(ENVIRONMENT, _backend(operation)) is not None


def _backend(operation: Operation) -> int:
    return int(operation.chances[5] * 2)
