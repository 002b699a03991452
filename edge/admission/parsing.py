"""Parsing of JSON bodies: large ones off the event loop, and callers without a key never ahead of those with one.

A small body is parsed at once. A larger one is queued: one queue is for callers with valid credentials, another for
all others, and each parses one body at a time in a thread of its own.
"""

import asyncio
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Any, Final

from contract.refusals import Refusal
from edge.codec.json_body import parse_json_body

_SHARE: Final = 0.25
"""Share of a processor that a queue uses at most while bodies wait in it."""
_SMALL_BYTES: Final = 16_384
# Smaller than for keys, because calls without a key count against no rate limit.
_SMALL_BYTES_OF_OTHERS: Final = 1_024
_MOST_WAITING: Final = 32
_MOST_WAITING_OF_OTHERS: Final = 8


class ParsingQueue:
    """Queue of bodies to be parsed, one at a time, round robin by owner.

    Where too many wait, the last body of the owner with the most is refused.
    """

    def __init__(self, most_waiting: int, name: str) -> None:
        self._most_waiting = most_waiting
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._busy = False

    async def parse(self, owner: str, body: bytes) -> Any:
        """Returns the value of a body; see `parse_json_body`.

        Raises:
            Refusal: `runtime_unreachable`, too many bodies wait; or the refusal of `parse_json_body`.
        """
        if self._busy:
            await self._wait_turn(owner)
        self._busy = True
        began = monotonic()
        loop = asyncio.get_running_loop()
        parsing = loop.run_in_executor(self._thread, parse_json_body, body)
        # Also after the caller has disconnected: the thread goes on.
        parsing.add_done_callback(lambda _: loop.call_later((monotonic() - began) * (1 / _SHARE - 1), self._next))
        return await asyncio.shield(parsing)

    def close(self) -> None:
        """Stops parsing; a body under way ends by itself."""
        self._thread.shutdown(wait=False)

    async def _wait_turn(self, owner: str) -> None:
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


class BodyParser:
    """Parses bodies of callers with a key in one queue, and of callers without one in another."""

    def __init__(self) -> None:
        self._of_keys = ParsingQueue(_MOST_WAITING, "edge-parse")
        self._of_others = ParsingQueue(_MOST_WAITING_OF_OTHERS, "edge-parse-other")

    def fits_inline(self, body: bytes, *, known: bool) -> bool:
        """Returns whether a body is small enough for the event loop; `known` says whether the caller has a key."""
        return len(body) <= (_SMALL_BYTES if known else _SMALL_BYTES_OF_OTHERS)

    async def parse(self, key_id: str, address: str, body: bytes) -> Any:
        """Returns the value of a body; its owner is the key, or the address where `key_id` is empty.

        Raises:
            Refusal: see `ParsingQueue.parse`.
        """
        if key_id:
            return await self._of_keys.parse(key_id, body)
        return await self._of_others.parse(address, body)

    def close(self) -> None:
        """Ends the threads."""
        self._of_keys.close()
        self._of_others.close()
