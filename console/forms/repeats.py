"""Forms that arrive twice, from a double click, a reload or a connection that broke: what they do is done once.

A page's forms have a token of their own. The same fields with the same token to the same address are the same form.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from console.forms.urlencoded import Form
from console.visit import PageResult, Redirect, View

SHOWN_SECONDS: Final = 5.0
"""How long the answer to a form is given to its repetition, where it shows what exists nowhere else."""

_REDIRECT_SECONDS: Final = 60.0
_REFUSED_SECONDS: Final = 3_600.0
_MOST: Final = 4_096
_SENT_ALREADY: Final = View("sent_already.html", status=409)


def form_key(secret: str, path: str, token: str, form: Form) -> bytes:
    """Returns what tells a form apart from others."""
    fields = sorted((name, *values) for name, values in form.items())
    return sha256(repr((secret, path, token, fields)).encode()).digest()


@dataclass(slots=True)
class _FormResult:
    answer: Redirect | View
    forget_at: float


class Repeats:
    """The forms that were handled lately in this process, and those that are being handled."""

    def __init__(self) -> None:
        self._under_way: dict[bytes, asyncio.Future[PageResult]] = {}
        self._done: OrderedDict[bytes, _FormResult] = OrderedDict()

    async def once(self, key: bytes, handle: Callable[[], Awaitable[PageResult]]) -> PageResult:
        """Returns the answer to a form, which is handled unless the same one was, or is being handled.

        A form that is refused or shown again with problems has done nothing, and is handled again.
        """
        while (earlier := self._under_way.get(key)) is not None:
            await asyncio.wait([earlier])
            if not earlier.cancelled() and isinstance(earlier.result(), (Redirect, View)):
                return earlier.result()
        if (done := self._remembered(key)) is not None:
            return done
        future = self._under_way[key] = asyncio.get_running_loop().create_future()
        try:
            answer = await handle()
            future.set_result(answer)
        finally:
            # Where it was refused, who waits handles it instead.
            future.cancel()
            del self._under_way[key]
        self._remember(key, answer)
        return answer

    def _remembered(self, key: bytes) -> PageResult | None:
        done = self._done.get(key)
        return done.answer if done is not None and time.monotonic() < done.forget_at else None

    def _remember(self, key: bytes, answer: PageResult) -> None:
        now = time.monotonic()
        if isinstance(answer, Redirect):
            self._done[key] = _FormResult(answer, now + _REDIRECT_SECONDS)
        elif isinstance(answer, View) and answer.once:
            self._done[key] = _FormResult(answer, now + _REFUSED_SECONDS)
            asyncio.get_running_loop().call_later(SHOWN_SECONDS, self._withhold, key)
        while len(self._done) > _MOST:
            self._done.popitem(last=False)

    def _withhold(self, key: bytes) -> None:
        """Forgets what an answer showed; that it was given stays known."""
        done = self._done.get(key)
        if done is not None:
            done.answer = _SENT_ALREADY
