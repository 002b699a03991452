"""A form that arrives twice is handled once."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from console.forms import kept_forms
from console.forms.kept_forms import FormRepeats, form_key
from console.visit import PageResult, Redirect, View
from contract.refusals import Refusal

KEY = form_key("secret", "/keys/new", "token", {"name": ["a"]})
ISSUED = View("keys/issued.html", {"key_value": "ak_1.secret"}, once=True)
CHANGED = View("runs/changed.html", changed=True)


class Handler:
    """Counts how often a form is handled, each time once it is let go."""

    def __init__(self, *answers: PageResult | Refusal) -> None:
        self.answers = list(answers)
        self.times = 0
        self.go = asyncio.Event()

    async def __call__(self) -> PageResult:
        answer = self.answers[self.times]
        self.times += 1
        await self.go.wait()
        if isinstance(answer, Refusal):
            raise answer
        return answer


def together(handler: Handler, times: int = 2) -> list[PageResult | BaseException]:
    """Sends a form several times before the first is answered."""

    async def send() -> list[PageResult | BaseException]:
        forms = FormRepeats()
        sent = [asyncio.create_task(forms.once(KEY, handler)) for _ in range(times)]
        await asyncio.sleep(0)
        handler.go.set()
        return await asyncio.gather(*sent, return_exceptions=True)

    return asyncio.run(send())


def one_after_the_other(handler: Handler, between: Callable[[], Awaitable[None]]) -> list[PageResult]:
    async def send() -> list[PageResult]:
        handler.go.set()
        forms = FormRepeats()
        first = await forms.once(KEY, handler)
        await between()
        return [first, await forms.once(KEY, handler)]

    return asyncio.run(send())


async def _nothing() -> None:
    pass


@pytest.mark.parametrize("answer", [Redirect("/keys", "Done."), ISSUED, CHANGED])
def test_a_double_click_is_handled_once_and_both_see_the_answer(answer: PageResult) -> None:
    handler = Handler(answer)
    assert together(handler, 3) == [answer] * 3
    assert handler.times == 1


@pytest.mark.parametrize("answer", [Redirect("/keys", "Done."), ISSUED, CHANGED])
def test_a_repetition_after_the_answer_is_answered_alike(answer: PageResult) -> None:
    handler = Handler(answer)
    assert one_after_the_other(handler, _nothing) == [answer, answer]
    assert handler.times == 1


def test_a_secret_is_not_kept_for_repetitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_forms, "SHOWN_SECONDS", 0)
    handler = Handler(ISSUED)

    async def pause() -> None:
        await asyncio.sleep(0.01)

    shown, again = one_after_the_other(handler, pause)
    assert shown == ISSUED
    assert isinstance(again, View)
    assert (again.template, again.status, again.context) == ("sent_already.html", 409, {})
    assert handler.times == 1


def test_a_form_that_did_nothing_is_handled_again() -> None:
    wrong, right = View("keys/new.html", status=400), Redirect("/keys")
    handler = Handler(wrong, right)
    assert one_after_the_other(handler, _nothing) == [wrong, right]
    refused, done = together(Handler(Refusal("rate_limited"), right))
    assert isinstance(refused, Refusal)
    assert done == right


@pytest.mark.parametrize(
    "other",
    [
        form_key("another", "/keys/new", "token", {"name": ["a"]}),
        form_key("secret", "/keys/other", "token", {"name": ["a"]}),
        form_key("secret", "/keys/new", "of another page", {"name": ["a"]}),
        form_key("secret", "/keys/new", "token", {"name": ["b"]}),
        form_key("secret", "/keys/new", "token", {"name": ["a"], "more": [""]}),
        form_key("secret", "/keys/new", "token", {"name": ["a", "a"]}),
    ],
)
def test_another_person_page_address_or_field_makes_another_form(other: bytes) -> None:
    assert other != KEY
