"""Retries of work that fails temporarily: which failures, at which intervals, and for how long.

The policies themselves are constants of the modules that use them.
"""

import logging
import random
import threading
from asyncio import sleep
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from time import monotonic
from typing import Final, Protocol, TypeVar

from backend.common.clock import Clock, is_due

T = TypeVar("T")

# Beyond it every delay is the longest one, and the power would overflow.
_MAX_DOUBLINGS: Final = 64

_LOG = logging.getLogger(__name__)


class HaltedError(Exception):
    """Retries ended because the halt of the work was set."""


class Halt(Protocol):
    """Ends retries in a thread, as a `threading.Event` does once it is set."""

    def is_set(self) -> bool:
        """Returns whether retries have ended."""

    def wait(self, timeout: float) -> bool:
        """Waits for `timeout` seconds, or until retries are ended; returns whether they are."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays that grow from the first to the longest.

    Attributes:
        first_seconds: The delay after the first failure.
        longest_seconds: The bound of every delay.
        multiplier: Ratio of each delay to the previous delay.
        jitter: The largest share by which a delay is randomly shortened or lengthened.
    """

    first_seconds: float
    longest_seconds: float
    multiplier: float = 2.0
    jitter: float = 0.0

    def delay(self, failures: int) -> float:
        """Returns the seconds to wait after `failures` failures, without jitter."""
        growth = self.multiplier ** min(failures - 1, _MAX_DOUBLINGS)
        return min(self.first_seconds * growth, self.longest_seconds)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Policy of retries: which failures are retried, when, and until when; the last failure is raised.

    The last try begins at the deadline at the latest. It may outlast the deadline, because a silent server makes the
    try itself long.

    Attributes:
        retry_on: Returns whether a failure may be temporary; others are raised at once.
        backoff: The delays between the tries.
        seconds: The deadline; None means none.
        from_start: Whether the deadline counts from the first try, and not from the first failure.
        attempts: The most tries; None means any number.
        describe: Describes a failure for the log, where a traceback might hold secrets; None logs a traceback.
    """

    retry_on: Callable[[Exception], bool]
    backoff: Backoff
    seconds: float | None = None
    from_start: bool = False
    attempts: int | None = None
    describe: Callable[[Exception], str] | None = None

    async def run(self, work: Callable[[], Awaitable[T]], what: str) -> T:
        """Returns the result of `work`, on an event loop; cancelling the call ends it. `what` names it in the log."""
        tries = _Tries(self, what)
        while True:
            try:
                return await work()
            except Exception as error:
                delay = tries.delay_after(error)
                if delay is None:
                    raise
            await sleep(delay)

    def run_blocking(self, work: Callable[[], T], what: str, halt: Halt | None = None) -> T:
        """Returns the result of `work`, in a thread.

        Raises:
            HaltedError: `halt` was set before a try or between two.
        """
        halt = halt or threading.Event()
        tries = _Tries(self, what)
        while not halt.is_set():
            try:
                return work()
            except Exception as error:
                delay = tries.delay_after(error)
                if delay is None:
                    raise
            halt.wait(delay)
        raise HaltedError


class _Tries:
    """The tries of one piece of work under a policy."""

    def __init__(self, policy: RetryPolicy, what: str) -> None:
        self._policy = policy
        self._what = what
        self._failures = 0
        self._end = self._deadline() if policy.from_start else None

    def delay_after(self, error: Exception) -> float | None:
        """Returns the seconds until the next try; None where there is none."""
        policy = self._policy
        self._failures += 1
        if self._end is None:
            self._end = self._deadline()
        left = self._end - monotonic()
        if left <= 0 or self._failures == policy.attempts or not policy.retry_on(error):
            return None
        self._log(error, left)
        delay = min(policy.backoff.delay(self._failures), left)
        jitter = policy.backoff.jitter
        return delay * random.uniform(1 - jitter, 1 + jitter)  # noqa: S311 - no secret

    def _deadline(self) -> float:
        return float("inf") if self._policy.seconds is None else monotonic() + self._policy.seconds

    def _log(self, error: Exception, left: float) -> None:
        until = "" if self._policy.seconds is None else f" for up to {left:.0f} s"
        if self._policy.describe is None:
            _LOG.warning("%s failed; retrying%s", self._what, until, exc_info=error)
        else:
            _LOG.warning("%s failed; retrying%s: %s", self._what, until, self._policy.describe(error))


class RetryTimes:
    """Earliest time of the next try by name of the work, for loops that run periodically anyway."""

    def __init__(self, clock: Clock, backoff: Backoff) -> None:
        self._clock = clock
        self._backoff = backoff
        self._failures: dict[str, tuple[int, int]] = {}

    def is_due(self, name: str) -> bool:
        """Returns whether the work may be tried now."""
        _, at = self._failures.get(name, (0, 0))
        return is_due(at, self._clock(), round(self._backoff.longest_seconds * 1000))

    def postpone(self, name: str) -> float:
        """Records a failure; returns the seconds until the next try."""
        failures = self._failures.get(name, (0, 0))[0] + 1
        seconds = self._backoff.delay(failures)
        self._failures[name] = failures, self._clock() + round(seconds * 1000)
        return seconds

    def keep_only(self, names: Collection[str]) -> None:
        """Forgets the failures of work that is not in `names`."""
        self._failures = {name: failure for name, failure in self._failures.items() if name in names}
