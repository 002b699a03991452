"""Handling of forms that arrive late, after their session ended, or twice, by a double click or a reload.

Late forms are kept in this process until their sender has signed in again. A repeated form takes effect once: each
page has a token of its own, and equal fields with an equal token and address count as a repetition.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from html.parser import HTMLParser
from secrets import token_urlsafe
from typing import Final, NamedTuple

from console.forms.multipart import UPLOAD_FIELD
from console.forms.urlencoded import TOKEN_FIELD, Form
from console.visit import PageResult, Redirect, View

SECONDS: Final = 900
"""Time for which a form is kept."""

_MOST: Final = 32
_MOST_BYTES: Final = 262_144
_SECRET_WORDS: Final = ("password", "secret", "token")
# The refilled page has its own token, version and runs, and files are chosen again.
_NOT_KEPT: Final = frozenset({TOKEN_FIELD, UPLOAD_FIELD, "version", "run_id"})
_UNFILLED_TYPES: Final = frozenset({"button", "file", "image", "password", "reset", "submit"})
_TICKED_TYPES: Final = frozenset({"checkbox", "radio"})


class KeptForm(NamedTuple):
    """A late form: its owner, the address of its page, the address that it was sent to, and its fields."""

    owner: str
    page: str
    action: str
    fields: Form
    forget_at: float


class KeptForms:
    """Store of a few late forms, by random names that only the sending browser knows."""

    def __init__(self) -> None:
        self._forms: OrderedDict[str, KeptForm] = OrderedDict()

    def keep(self, owner: str, page: str, action: str, form: Form) -> str:
        """Keeps a form without its secrets; returns its name, empty where the form is too large."""
        fields = {name: values for name, values in form.items() if _is_kept(name)}
        size = sum(len(text.encode(errors="replace")) for name, values in fields.items() for text in (name, *values))
        if size > _MOST_BYTES:
            return ""
        name = token_urlsafe(16)
        self._forms[name] = KeptForm(owner, page, action, fields, time.monotonic() + SECONDS)
        while len(self._forms) > _MOST:
            self._forms.popitem(last=False)
        return name

    def take(self, name: str, owner: str, page: str) -> KeptForm | None:
        """Returns a form and forgets it; None if it has expired or is another owner's.

        A form of the owner's that is of another page stays, and gives None.
        """
        kept = self._forms.get(name)
        if kept is None or (kept.owner == owner and kept.page != page):
            return None
        del self._forms[name]
        return kept if kept.owner == owner and time.monotonic() < kept.forget_at else None


def refilled(page: str, kept: KeptForm) -> str:
    """Returns a page's HTML with the fields of its form filled in from a kept form."""
    finder = _FieldFinder(page, kept)
    finder.feed(page)
    finder.close()
    parts, at = [], 0
    for begin, end, text in finder.changes:
        parts += [page[at:begin], text]
        at = end
    return "".join([*parts, page[at:]])


class _FieldFinder(HTMLParser):
    """Parser of a page that collects the replacements which fill in a form, as (begin, end, new text)."""

    def __init__(self, page: str, kept: KeptForm) -> None:
        super().__init__(convert_charrefs=False)
        self.changes: list[tuple[int, int, str]] = []
        self._kept = kept
        self._lines = [0]
        for line in page.split("\n"):
            self._lines.append(self._lines[-1] + len(line) + 1)
        self._inside = False
        self._used: dict[str, int] = {}
        self._choices: Sequence[str] | None = None
        self._text_begin: int | None = None
        self._text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Fills a field in."""
        given = dict(attrs)
        if tag == "form":
            self._inside = given.get("method") == "post" and given.get("action") == self._kept.action
        if not self._inside:
            return
        name = given.get("name") or ""
        if tag == "input" and _is_kept(name) and given.get("type") not in _UNFILLED_TYPES:
            self._fill_input(name, given)
        elif tag == "select":
            self._choices = self._kept.fields.get(name)
        elif tag == "option" and self._choices is not None:
            self._mark(tag, given, "selected", chosen=(given.get("value") or "") in self._choices)
        elif tag == "textarea" and name in self._kept.fields:
            self._text_begin = self._here() + len(self.get_starttag_text() or "")
            self._text = self._next_of(name)

    def handle_endtag(self, tag: str) -> None:
        """Ends a form or a field; fills in a text area."""
        if tag == "form":
            self._inside = False
        elif tag == "select":
            self._choices = None
        elif tag == "textarea" and self._text_begin is not None:
            self.changes.append((self._text_begin, self._here(), "\n" + escape(self._text)))
            self._text_begin = None

    def _fill_input(self, name: str, given: Mapping[str, str | None]) -> None:
        if given.get("type") in _TICKED_TYPES:
            chosen = (given.get("value") or "on") in self._kept.fields.get(name, ())
            self._mark("input", given, "checked", chosen=chosen)
        elif name in self._kept.fields:
            self._replace("input", {**given, "value": self._next_of(name)})

    def _mark(self, tag: str, given: Mapping[str, str | None], mark: str, *, chosen: bool) -> None:
        others = {name: value for name, value in given.items() if name != mark}
        self._replace(tag, {**others, mark: None} if chosen else others)

    def _replace(self, tag: str, attributes: Mapping[str, str | None]) -> None:
        begin = self._here()
        written = "".join(
            f" {name}" if value is None else f' {name}="{escape(value)}"' for name, value in attributes.items()
        )
        self.changes.append((begin, begin + len(self.get_starttag_text() or ""), f"<{tag}{written}>"))

    def _next_of(self, name: str) -> str:
        values = self._kept.fields[name]
        number = self._used.get(name, 0)
        self._used[name] = number + 1
        return values[min(number, len(values) - 1)]

    def _here(self) -> int:
        line, column = self.getpos()
        return self._lines[line - 1] + column


def _is_kept(name: str) -> bool:
    return name not in _NOT_KEPT and not any(word in name.lower() for word in _SECRET_WORDS)


SHOWN_SECONDS: Final = 5.0
"""Time for which a repeated form gets the first answer, where that answer shows a new secret."""

_CHANGED_SECONDS: Final = 60.0
_SENT_ALREADY_SECONDS: Final = 3_600.0
_MOST_REMEMBERED: Final = 4_096
_SENT_ALREADY: Final = View("sent_already.html", status=409)


def form_key(secret: str, path: str, token: str, form: Form) -> bytes:
    """Returns a key that is equal for repetitions of a form only."""
    fields = sorted((name, *values) for name, values in form.items())
    return sha256(repr((secret, path, token, fields)).encode()).digest()


@dataclass(slots=True)
class _FormResult:
    answer: Redirect | View
    forget_at: float


class FormRepeats:
    """Recognizes repeated forms among those handled lately, or being handled, in this process."""

    def __init__(self) -> None:
        self._under_way: dict[bytes, asyncio.Future[PageResult]] = {}
        self._done: OrderedDict[bytes, _FormResult] = OrderedDict()

    async def once(self, key: bytes, handle: Callable[[], Awaitable[PageResult]]) -> PageResult:
        """Returns the answer to a form; calls `handle` unless an equal form was handled or is being handled.

        A form that was refused, or shown again with problems, had no effect and is handled again.
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
            # After a refusal the next waiting request handles the form.
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
            self._done[key] = _FormResult(answer, now + _CHANGED_SECONDS)
        elif isinstance(answer, View) and answer.changed:
            self._done[key] = _FormResult(answer, now + _CHANGED_SECONDS)
            # A page is larger than a redirect, so it is removed as soon as it has expired.
            asyncio.get_running_loop().call_later(_CHANGED_SECONDS, self._done.pop, key, None)
        elif isinstance(answer, View) and answer.once:
            self._done[key] = _FormResult(answer, now + _SENT_ALREADY_SECONDS)
            asyncio.get_running_loop().call_later(SHOWN_SECONDS, self._withhold, key)
        while len(self._done) > _MOST_REMEMBERED:
            self._done.popitem(last=False)

    def _withhold(self, key: bytes) -> None:
        """Replaces a remembered answer by the notice that the form was sent already."""
        done = self._done.get(key)
        if done is not None:
            done.answer = _SENT_ALREADY
