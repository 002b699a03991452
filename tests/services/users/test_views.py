"""Saved views of the people of a console."""

import pytest

from backend.services.users.views import MOST_VIEWS
from tests.services.users.conftest import People, reason
from workflow_api.v1.sessions_pb2 import RemoveViewRequest, RenameViewRequest, SaveViewRequest
from workflow_api.v1.users_pb2 import Preferences, SavedView, User

FAILED = "/runs?status=failed"


def save(people: People, token: str, name: str, address: str = FAILED) -> User:
    request = SaveViewRequest(token=token, view=SavedView(name=name, address=address))
    user: User = people.call("SaveView", request, actor="console")
    return user


def rename(people: People, token: str, name: str, new_name: str) -> User:
    user: User = people.call("RenameView", RenameViewRequest(token=token, name=name, new_name=new_name))
    return user


def remove(people: People, token: str, name: str) -> User:
    user: User = people.call("RemoveView", RemoveViewRequest(token=token, name=name))
    return user


def views(user: User) -> list[tuple[str, str]]:
    return [(view.name, view.address) for view in user.views]


def test_views_are_of_one_person_in_every_session_in_the_order_of_their_saving(people: People) -> None:
    password, other = people.add(), people.sign_in(people.add("bob"), "bob").token
    first, second = (people.sign_in(password).token for _ in range(2))
    save(people, first, "  Failed   ones ")
    assert views(save(people, second, "Bo's", "/audit?actor=user%3Abo")) == [
        ("Failed ones", FAILED),
        ("Bo's", "/audit?actor=user%3Abo"),
    ]
    assert len(people.session(first).user.views) == 2
    assert not people.session(other).user.views
    assert not any(user.views for user in people.users().values())


def test_a_view_is_renamed_in_its_place_and_removed(people: People) -> None:
    token = people.sign_in(people.add()).token
    save(people, token, "one")
    save(people, token, "two", "/runs?q=2")
    assert views(rename(people, token, "one", "first")) == [("first", FAILED), ("two", "/runs?q=2")]
    assert views(rename(people, token, "first", "first")) == [("first", FAILED), ("two", "/runs?q=2")]
    assert views(remove(people, token, "first")) == [("two", "/runs?q=2")]
    assert views(remove(people, token, "first")) == [("two", "/runs?q=2")]


def test_preferences_and_views_leave_each_other_as_they_are(people: People) -> None:
    token = people.sign_in(people.add()).token
    save(people, token, "one")
    people.prefer(token, Preferences(compact=True))
    save(people, token, "two")
    user = people.session(token).user
    assert (user.preferences.compact, [view.name for view in user.views]) == (True, ["one", "two"])


def test_a_name_is_used_once_and_is_not_blank(people: People) -> None:
    token = people.sign_in(people.add()).token
    save(people, token, "one")
    save(people, token, "two")
    for refused, field in (
        (reason(save, people, token, "one"), "view.name"),
        (reason(save, people, token, "  "), "view.name"),
        (reason(save, people, token, "n" * 61), "view.name"),
        (reason(rename, people, token, "one", "two"), "new_name"),
        (reason(rename, people, token, "one", " "), "new_name"),
    ):
        assert (refused.reason, list(refused.problems)) == ("invalid_request", [field])
    assert reason(rename, people, token, "three", "four").reason == "not_found"


@pytest.mark.parametrize(
    "address", ["//evil.example/?a", "https://evil.example/?a", "/runs", "/runs?a b", "/runs?" + "a" * 1001, "/runs?\n"]
)
def test_an_address_leads_to_a_list_of_the_console(people: People, address: str) -> None:
    token = people.sign_in(people.add()).token
    assert list(reason(save, people, token, "one", address).problems) == ["view.address"]


def test_a_person_has_thirty_views_at_most(people: People) -> None:
    token = people.sign_in(people.add()).token
    for number in range(MOST_VIEWS):
        save(people, token, f"view {number}")
    refused = reason(save, people, token, "one more")
    assert list(refused.problems) == ["view"]
    assert "at most 30" in refused.problems["view"]
    remove(people, token, "view 0")
    assert len(save(people, token, "one more").views) == MOST_VIEWS


def test_views_are_for_a_session_that_lasts(people: People) -> None:
    for call in (lambda: save(people, "none", "one"), lambda: remove(people, "none", "one")):
        assert reason(call).reason == "unauthorized"
