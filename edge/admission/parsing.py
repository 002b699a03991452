"""Parses bodies so that nobody's takes the event loop, and nobody without a key stands before somebody with one.

A small body is parsed at once. A larger one waits its turn: one line is for callers whose credentials are right,
another for all others, and each parses one body at a time in a thread of its own.
"""

import asyncio
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Any, Final

from contract.refusals import Refusal
from edge.codec.json_body import parse_json_body

_SHARE: Final = 0.25
"""The most of a processor that a line takes while bodies wait in it."""
_SMALL_BYTES: Final = 16_384
# What costs a caller with a key a minute's share of calls costs others nothing.
_SMALL_BYTES_OF_OTHERS: Final = 1_024
_MOST_WAITING: Final = 32
_MOST_WAITING_OF_OTHERS: Final = 8


class ParsingLine:
    """Bodies that wait to be parsed, one at a time, in turn by their owners.

    Where too many wait, the owner of the most gives up the last of them.
    """

    def __init__(self, most_waiting: int, name: str) -> None:
        self._most_waiting = most_waiting
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._busy = False

    async def parse(self, owner: str, body: bytes) -> Any:
        """Returns the value of a body; see `parse_json_body`.

        Raises:
            Refusal: `runtime_unreachable`, too many bodies wait; or that of `parse_json_body`.
        """
        if self._busy:
            await self._turn(owner)
        self._busy = True
        began = monotonic()
        loop = asyncio.get_running_loop()
        parsing = loop.run_in_executor(self._thread, parse_json_body, body)
        # Also where the caller goes away meanwhile: the thread goes on.
        parsing.add_done_callback(lambda _: loop.call_later((monotonic() - began) * (1 / _SHARE - 1), self._next))
        return await asyncio.shield(parsing)

    def close(self) -> None:
        """Parses no more; what is under way ends by itself."""
        self._thread.shutdown(wait=False)

    async def _turn(self, owner: str) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(owner, deque()).append(turn)
        if sum(map(len, self._waiting.values())) > self._most_waiting:
            longest = max(self._waiting, key=lambda each: len(self._waiting[each]))
            self._waiting[longest][-1].set_exception(Refusal("runtime_unreachable"))
            self._remove(longest, self._waiting[longest][-1])
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._next()
            else:
                self._remove(owner, turn)
            raise

    def _next(self) -> None:
        self._busy = False
        if self._waiting:
            owner = next(iter(self._waiting))
            turns = self._waiting.pop(owner)
            self._busy = True
            turns.popleft().set_result(None)
            if turns:
                # Behind the other owners.
                self._waiting[owner] = turns

    def _remove(self, owner: str, turn: "asyncio.Future[None]") -> None:
        turns = self._waiting.get(owner, deque())
        if turn in turns:
            turns.remove(turn)
        if not turns:
            self._waiting.pop(owner, None)


class Parsing:
    """Both lines."""

    def __init__(self) -> None:
        self._of_keys = ParsingLine(_MOST_WAITING, "edge-parse")
        self._of_others = ParsingLine(_MOST_WAITING_OF_OTHERS, "edge-parse-other")

    def at_once(self, body: bytes, *, known: bool) -> bool:
        """Returns whether a body is small enough to be parsed on the event loop, for a caller who has a key or not."""
        return len(body) <= (_SMALL_BYTES if known else _SMALL_BYTES_OF_OTHERS)

    async def parse(self, key_id: str, address: str, body: bytes) -> Any:
        """Returns the value of a body of a caller with this key, or with none from this address.

        Raises:
            Refusal: see `ParsingLine.parse`.
        """
        if key_id:
            return await self._of_keys.parse(key_id, body)
        return await self._of_others.parse(address, body)

    def close(self) -> None:
        """Ends the threads."""
        self._of_keys.close()
        self._of_others.close()
