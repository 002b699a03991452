"""Long polls of this edge: by run, to wake them at a change, and by key, to end them with their key."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from time import perf_counter
from typing import Final, Self

from contract.refusals import Refusal
from edge.admission.call import Call
from edge.admission.checks import check_again
from edge.admission.keyring import Key
from edge.settings import EdgeSettings

_CHECK_SECONDS: Final = 1.0
# The other connections are left to calls that are not held.
_SHARE_OF_CONNECTIONS: Final = 0.8

_LOG = logging.getLogger(__name__)


class LongPoll:
    """One held call; opened before its first read, so that no later change is missed."""

    __slots__ = ("_long_polls", "_waiter", "_woken", "call", "ended", "lost", "on_refused", "refusal", "run_id")

    def __init__(self, long_polls: "LongPolls", call: Call, run_id: str) -> None:
        self.call = call
        self.run_id = run_id
        self.ended = False
        """True once the edge is about to stop."""
        self.lost = False
        """True once the caller has disconnected, or sends no more."""
        self.refusal: Refusal | None = None
        """The refusal of a key that lost access."""
        self.on_refused: Callable[[], None] | None = None
        self._long_polls = long_polls
        self._woken = False
        self._waiter: asyncio.Future[None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def over(self) -> bool:
        """Returns whether the wait has ended for good: by the edge, the caller or a refusal."""
        return self.ended or self.lost or self.refusal is not None

    @property
    def waiting(self) -> bool:
        """Returns whether the call waits for a change at this moment."""
        return self._waiter is not None and not self._waiter.done()

    def wake(self) -> None:
        """Ends the present wait, or else the next."""
        self._woken = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self, seconds: float) -> bool:
        """Returns True once woken, and False after so many seconds."""
        if not self._woken and seconds > 0:
            loop = asyncio.get_running_loop()
            waiter = self._waiter = loop.create_future()
            # The loop's clock stands still within an iteration of the loop.
            began = perf_counter()
            timer = loop.call_later(seconds, _settle, waiter)
            try:
                await waiter
            finally:
                timer.cancel()
                self._waiter = None
                self.call.waited += perf_counter() - began
        woken, self._woken = self._woken, False
        return woken

    def caller_disconnected(self) -> None:
        """Ends the wait of a caller that has disconnected."""
        self.lost = True
        self.wake()

    def refuse(self, refusal: Refusal) -> None:
        """Ends the wait of a caller whose key lost access."""
        self.refusal = refusal
        self.wake()
        if self.on_refused is not None:
            self.on_refused()

    def close(self) -> None:
        """Ends the poll."""
        connection = self.call.request.connection
        connection.on_lost = connection.on_ended = None
        self._long_polls.remove(self)


class LongPolls:
    """All held calls of one edge."""

    def __init__(self, settings: EdgeSettings, clock: Callable[[], int], wanted: Callable[[], None]) -> None:
        """Takes the settings, the time in milliseconds, and `wanted`, called when the first call is held."""
        self._most_of_key = settings.held_per_key
        self._most = int(settings.connections * _SHARE_OF_CONNECTIONS)
        self._clock = clock
        self._wanted = wanted
        self._of_run: dict[str, set[LongPoll]] = defaultdict(set)
        self._of_key: dict[str, set[LongPoll]] = defaultdict(set)
        self._task: asyncio.Task[None] | None = None
        self.count = 0
        """Number of calls that wait."""
        self.ended = False

    def open(self, call: Call, run_id: str) -> LongPoll | None:
        """Holds a call; returns None where it must be answered at once."""
        of_key = self._of_key.get(call.key_id, ())
        if self.ended or len(of_key) >= self._most_of_key or self.count >= self._most:
            return None
        poll = LongPoll(self, call, run_id)
        self._of_run[run_id].add(poll)
        self._of_key[call.key_id].add(poll)
        self.count += 1
        connection = call.request.connection
        # A caller that sends no more has most likely disconnected: answered at once.
        connection.on_lost = connection.on_ended = poll.caller_disconnected
        if connection.lost or connection.ended:
            # The caller disconnected during the checks, which is reported only once.
            poll.caller_disconnected()
        if self.count == 1:
            self._wanted()
        if self._task is None:
            self._task = asyncio.create_task(self._check_keys())
        return poll

    def remove(self, poll: LongPoll) -> None:
        """Forgets a call that is no longer held."""
        of_run = self._of_run.get(poll.run_id, set())
        if poll not in of_run:
            return
        self.count -= 1
        for polls_by_name, name in ((self._of_run, poll.run_id), (self._of_key, poll.call.key_id)):
            polls_by_name[name].discard(poll)
            if not polls_by_name[name]:
                del polls_by_name[name]

    def any_waits_for(self, run_id: str) -> bool:
        """Returns whether a held call waits for the run."""
        return run_id in self._of_run

    def changed(self, run_ids: Iterable[str]) -> None:
        """Wakes the calls that wait for these runs."""
        for run_id in run_ids:
            for poll in self._of_run.get(run_id, ()):
                poll.wake()

    def any_changed(self) -> None:
        """Wakes all calls."""
        for poll in self.all():
            poll.wake()

    async def end(self) -> None:
        """Answers all held calls now, and holds no further calls."""
        self.ended = True
        for poll in self.all():
            poll.ended = True
            poll.wake()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def all(self) -> Collection[LongPoll]:
        """Returns every held call."""
        return [poll for of_run in self._of_run.values() for poll in of_run]

    async def _check_keys(self) -> None:
        while True:
            await asyncio.sleep(_CHECK_SECONDS)
            try:
                now_ms = self._clock()
                for of_key in tuple(self._of_key.values()):
                    _refuse_polls(tuple(of_key), now_ms)
            except Exception:  # noqa: BLE001 - one failure does not end the checks
                _LOG.exception("The keys of held calls could not be checked")


def _refuse_polls(of_key: Collection[LongPoll], now_ms: int) -> None:
    """Refuses the long polls of one key that lost access; an unchanged key is checked once for all of them."""
    unchanged: Key | None = None
    for poll in of_key:
        key = poll.call.key
        if key is unchanged or poll.refusal is not None:
            continue
        if poll.call.key_unchanged(now_ms):
            # While two secrets are valid, each call may end with a different one.
            unchanged = None if key.previous_until_ms else key
            continue
        try:
            check_again(poll.call, now_ms)
        except Refusal as refusal:
            poll.refuse(refusal)


def _settle(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)
