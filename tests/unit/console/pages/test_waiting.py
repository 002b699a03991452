"""The number of waiting approvals on pages, and the page that open pages ask for it."""

from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf.message import Message

from contract.refusals import Refusal
from tests.unit.console.conftest import Desk
from tests.unit.console.people import REVIEWS, SESSIONS

COUNT = REVIEWS + "CountPendingApprovals"


def _refuse(_: Any) -> Message:
    raise Refusal("runtime_unreachable")


@pytest.mark.parametrize("path", ["/runs", "/preferences", "/nowhere", "/refused", "/broken"])
def test_every_page_has_the_number_in_its_title_and_navigation(start: Callable[..., Desk], path: str) -> None:
    desk = start()
    desk.channel.waiting = 1234
    page = desk.browser("bob").get(path).text
    assert "<title>(1234) " in page
    desk.channel.waiting = 0
    assert "<title>(" not in desk.browser("bob").get(path).text


def test_a_page_whose_number_cannot_be_read_is_shown_without_it(start: Callable[..., Desk]) -> None:
    desk = start()
    desk.channel.answers[COUNT] = _refuse
    answer = desk.browser("bob").get("/runs")
    assert answer.status == 200
    assert 'id="waiting"' not in answer.text


def test_a_page_costs_one_question_without_the_gates(start: Callable[..., Desk]) -> None:
    desk = start()
    browser = desk.browser("bob")
    browser.get("/runs")
    (asked,) = [request for rpc, request, _ in desk.channel.calls if rpc == COUNT]
    assert asked.total_only


@pytest.mark.parametrize("name", ["tim", "una"])
def test_nothing_is_counted_before_the_sign_in_is_complete(start: Callable[..., Desk], name: str) -> None:
    desk = start()
    desk.browser(name).get("/password")
    assert COUNT not in {rpc for rpc, *_ in desk.channel.calls}


def test_what_open_pages_ask_for_by_themselves_is_no_use_of_a_session(start: Callable[..., Desk]) -> None:
    desk = start()
    browser = desk.browser("bob")
    browser.get("/waiting")
    browser.get("/runs", X_Refresh="automatic")
    browser.get("/runs", X_Refresh="true")
    browser.get("/runs")
    asked = [request.automatic for rpc, request, _ in desk.channel.calls if rpc == SESSIONS + "GetSession"]
    assert asked == [True, True, False, False]
