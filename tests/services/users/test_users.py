"""UsersService: who may sign in, and what an administrator's change ends."""

import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from contract.times import to_timestamp
from tests.services.conftest import TestClock
from tests.services.users.conftest import LIMIT, People, reason
from workflow_api.v1 import users_pb2

APPROVER = users_pb2.ROLE_APPROVER


def test_an_added_person_can_sign_in_with_the_password_returned(people: People, clock: TestClock) -> None:
    password = people.add("bo", APPROVER)
    assert re.fullmatch(r"([0-9a-hjkmnp-tv-z]{5}-){4}[0-9a-hjkmnp-tv-z]{5}", password)
    assert people.users()["bo"] == users_pb2.User(
        name="bo", role=APPROVER, created_at=to_timestamp(clock.now), password_is_temporary=True
    )
    clock.advance(seconds=5)
    session = people.sign_in(password, "bo")
    assert session.user.signed_in_at == to_timestamp(clock.now)
    assert people.session(session.token).user == session.user == people.users()["bo"]


def test_people_are_listed_by_name(people: People) -> None:
    for name in ("bo", "ana", "cy"):
        people.add(name)
    people.disable("cy")
    assert [(name, user.disabled) for name, user in people.users().items()] == [
        ("ana", False),
        ("bo", False),
        ("cy", True),
    ]


@pytest.mark.parametrize(
    ("name", "role", "field"),
    [
        ("", 1, "name"),
        ("Ana", 1, "name"),
        ("-ana", 1, "name"),
        ("a" * 101, 1, "name"),
        ("ana berg", 1, "name"),
        ("ana", 0, "role"),
        ("ana", 7, "role"),
    ],
)
def test_a_name_or_role_out_of_bounds_is_refused(people: People, name: str, role: int, field: str) -> None:
    refused = reason(people.add, name, role)
    assert (refused.reason, set(refused.problems)) == ("invalid_request", {field})
    assert not people.users()


def test_a_name_belongs_to_one_person(people: People) -> None:
    password = people.add()
    refused = reason(people.add)
    assert refused.reason == "invalid_request"
    assert "reset the password" in refused.problems["name"]
    assert people.sign_in(password).token


def test_no_more_people_are_enabled_than_the_limit(people: People) -> None:
    for number in range(LIMIT):
        people.add(f"user-{number}")
    refused = reason(people.add, "one-too-many")
    assert refused.reason == "invalid_request"
    assert refused.problems["name"] == (
        "must be one of at most 3 who are enabled: disable somebody, or raise backend.users_limit"
    )
    people.disable("user-0")
    assert people.add("one-too-many")
    assert reason(people.add, "user-0").reason == "invalid_request"


def test_the_limit_of_enabled_people_holds_under_concurrent_adds(people: People) -> None:
    with ThreadPoolExecutor(6) as pool:
        adding = [pool.submit(people.add, f"user-{number}") for number in range(6)]
    assert sum(each.exception() is None for each in adding) == len(people.users()) == LIMIT


def test_a_disabled_person_is_signed_out_and_cannot_sign_in(people: People) -> None:
    password = people.add()
    token = people.sign_in(password).token
    assert people.disable().disabled
    assert reason(people.session, token).reason == "unauthorized"
    assert reason(people.sign_in, password).message == "The name or the password is wrong."
    assert not people.rows("sessions")


def test_disabling_again_changes_nothing(people: People, clock: TestClock) -> None:
    people.add()
    people.disable()
    before = people.rows("users"), people.audited()
    clock.advance(seconds=1)
    assert people.disable().disabled
    assert (people.rows("users"), people.audited()) == before


def test_a_disabled_person_comes_back_with_a_new_role_and_password(people: People, clock: TestClock) -> None:
    first = people.add()
    added_at = clock.now
    token = people.sign_in(first).token
    people.disable()
    clock.advance(seconds=1)
    second = people.add("ana", APPROVER)
    assert reason(people.session, token).reason == "unauthorized"
    assert reason(people.sign_in, first).reason == "unauthorized"
    assert people.sign_in(second).user.role == APPROVER
    assert people.users()["ana"].created_at == to_timestamp(added_at)


def test_a_password_reset_ends_sessions_and_the_old_password(people: People) -> None:
    first = people.add()
    token = people.sign_in(first).token
    second = people.reset()
    assert reason(people.session, token).reason == "unauthorized"
    assert reason(people.sign_in, first).reason == "unauthorized"
    assert people.sign_in(second).user.password_is_temporary


def test_a_disabled_person_has_no_password_to_reset(people: People) -> None:
    people.add()
    people.disable()
    refused = reason(people.reset)
    assert refused.problems == {"name": "must be of somebody who is enabled: add them again"}


def test_an_unknown_person_is_not_found(people: People) -> None:
    assert reason(people.disable, "nobody").reason == "not_found"
    assert reason(people.reset, "nobody").reason == "not_found"


def test_every_change_is_audited_without_a_secret(people: People) -> None:
    password = people.add("ana", APPROVER)
    session = people.sign_in(password)
    people.change(session.token, password, "a new long password")
    people.sign_out(session.token)
    reset = people.reset()
    people.disable()
    address = {"address": "203.0.113.7"}
    assert people.audited() == [
        ("user.added", "ana", "root", {"role": "approver"}),
        ("user.signed_in", "ana", "console", address | {"by": "password"}),
        ("user.password_changed", "ana", "user:ana", {}),
        ("user.signed_out", "ana", "console", {}),
        ("user.password_reset", "ana", "root", {}),
        ("user.disabled", "ana", "root", {}),
    ]
    kept = str([people.rows(table) for table in ("users", "sessions", "sign_in_tries", "audit_records")])
    for secret in (password, reset, session.token, "a new long password"):
        assert secret not in kept
