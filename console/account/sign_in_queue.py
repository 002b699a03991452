"""Queue of password verifications, fair by address, so that guessing does not delay other people's sign-ins."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final, TypeVar

from contract.addresses import network_of
from contract.refusals import Refusal

_CONCURRENT: Final = 2
"""Verifications under way: as many as one backend makes at a time, each at least 0.1 s of one core."""

_WAITING_PER_ADDRESS: Final = 10
_REMEMBERED_ADDRESSES: Final = 10_000
_RETRIES: Final = 10

T = TypeVar("T")

_Waiting = OrderedDict[str, deque[asyncio.Future[None]]]


class SignInQueue:
    """Limits concurrent calls of the backend, and serves addresses round robin.

    Addresses whose last sign-in succeeded come first, then unknown ones, then those whose last sign-in failed.
    """

    def __init__(self) -> None:
        self._running = 0
        self._closed = False
        self._waiting: Mapping[bool | None, _Waiting] = {succeeded: OrderedDict() for succeeded in (True, None, False)}
        self._succeeded: OrderedDict[str, bool] = OrderedDict()

    async def run(self, address: str, verify: Callable[[], Awaitable[T]]) -> T:
        """Returns the result of `verify`, which calls the backend.

        Raises:
            Refusal: `rate_limited`, too many calls of this address wait already; `runtime_unreachable`, the queue is
            closed; and the refusals of `verify`.
        """
        network = network_of(address)
        async with self._slot(network):
            try:
                verified = await _verified(verify)
            except Refusal as refusal:
                if refusal.code == "unauthorized":
                    self._remember(network, succeeded=False)
                raise
            self._remember(network, succeeded=True)
            return verified

    def close(self) -> None:
        """Refuses waiting and new calls; calls under way continue."""
        self._closed = True
        for waiting in self._waiting.values():
            for queue in waiting.values():
                for granted in queue:
                    if not granted.done():
                        granted.set_exception(_stopping())
            waiting.clear()

    def _remember(self, network: str, *, succeeded: bool) -> None:
        self._succeeded[network] = succeeded
        self._succeeded.move_to_end(network)
        if len(self._succeeded) > _REMEMBERED_ADDRESSES:
            self._succeeded.popitem(last=False)

    @asynccontextmanager
    async def _slot(self, network: str) -> AsyncIterator[None]:
        if self._closed:
            raise _stopping()
        if self._running < _CONCURRENT:
            self._running += 1
        else:
            await self._wait(network)
        try:
            yield
        finally:
            self._release()

    async def _wait(self, network: str) -> None:
        queue = self._waiting[self._succeeded.get(network)].setdefault(network, deque())
        if len(queue) >= _WAITING_PER_ADDRESS:
            raise Refusal("rate_limited", "Too many sign-ins from this address wait already.", retry_after=1)
        granted = asyncio.get_running_loop().create_future()
        queue.append(granted)
        try:
            await granted
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled():
                self._release()
            raise

    def _release(self) -> None:
        """Passes the slot to the next waiting call, if any."""
        for waiting in self._waiting.values():
            while waiting:
                network, queue = waiting.popitem(last=False)
                granted = queue.popleft()
                if queue:
                    waiting[network] = queue
                if not granted.done():
                    granted.set_result(None)
                    return
        self._running -= 1


def _stopping() -> Refusal:
    return Refusal("runtime_unreachable", "The console is stopping; try again.")


async def _verified(verify: Callable[[], Awaitable[T]]) -> T:
    """Returns the result of `verify`, retried where a busy backend refuses for at most a second."""
    for _ in range(_RETRIES):
        try:
            return await verify()
        except Refusal as refusal:
            if refusal.code != "rate_limited" or (refusal.retry_after or 0) > 1:
                raise
        await asyncio.sleep(1)
    return await verify()
