"""UsersService: how long sessions last, and what ends them."""

import hashlib
from functools import partial

from backend.services.users.sign_in import RETENTION
from contract.times import to_timestamp
from tests.services.conftest import TestClock
from tests.services.users.conftest import WRONG, People, reason
from workflow_api.v1.users_pb2 import THEME_DARK, Preferences

HOUR = 3600
NEW = "a new long password"


def test_a_session_lasts_an_hour_from_its_last_use(people: People, clock: TestClock) -> None:
    token = people.sign_in(people.add()).token
    clock.advance(seconds=HOUR - 1)
    assert people.session(token).user.name == "ana"
    clock.advance(seconds=HOUR - 1)
    assert people.session(token).user.name == "ana"
    clock.advance(seconds=HOUR)
    assert reason(people.session, token).message == "The session has ended."


def test_a_session_in_use_lasts_twelve_hours(people: People, clock: TestClock) -> None:
    session = people.sign_in(people.add())
    assert session.expires_at == to_timestamp(clock.now + 12 * HOUR * 1000)
    for _ in range(23):
        clock.advance(seconds=HOUR / 2)
        assert people.session(session.token).expires_at == session.expires_at
    clock.advance(seconds=HOUR / 2)
    assert reason(people.session, session.token).reason == "unauthorized"


def test_the_last_use_of_a_session_is_written_once_a_minute(people: People, clock: TestClock) -> None:
    token = people.sign_in(people.add()).token
    begun = people.rows("sessions")
    clock.advance(seconds=59)
    people.session(token)
    assert people.rows("sessions") == begun
    clock.advance(seconds=1)
    people.session(token)
    assert people.rows("sessions") != begun


def test_preferences_are_of_the_person_in_every_session(people: People) -> None:
    password = people.add()
    first, second = (people.sign_in(password).token for _ in range(2))
    assert not people.session(first).user.HasField("preferences")
    chosen = Preferences(time_zone="Asia/Tokyo", theme=THEME_DARK, exact_times=True, compact=True)
    assert people.prefer(first, chosen).preferences == chosen
    assert people.session(second).user.preferences == chosen
    assert people.session(second).user.name == "ana"


def test_preferences_of_an_unknown_zone_or_an_ended_session_are_refused(people: People) -> None:
    token = people.sign_in(people.add()).token
    refused = reason(people.prefer, token, Preferences(time_zone="Mars/Olympus"))
    assert list(refused.problems) == ["preferences.time_zone"]
    assert not people.session(token).user.HasField("preferences")
    assert reason(people.prefer, "no session", Preferences()).reason == "unauthorized"


def test_questions_of_an_open_page_do_not_make_a_session_last(people: People, clock: TestClock) -> None:
    token = people.sign_in(people.add()).token
    clock.advance(seconds=HOUR - 1)
    assert people.session(token, automatic=True).user.name == "ana"
    clock.advance(seconds=1)
    assert reason(people.session, token).message == "The session has ended."


def test_only_the_hash_of_a_token_is_kept(people: People) -> None:
    token = people.sign_in(people.add()).token
    assert len(token) == 43
    (row,) = people.rows("sessions")
    assert row[0] == hashlib.sha256(token.encode()).hexdigest()
    assert reason(people.session, row[0]).reason == "unauthorized"


def test_only_the_answer_to_a_sign_in_holds_the_token(people: People) -> None:
    token = people.sign_in(people.add()).token
    assert not people.session(token).token


def test_signing_out_twice_is_harmless(people: People) -> None:
    password = people.add()
    here, there = people.sign_in(password).token, people.sign_in(password).token
    people.sign_out(here)
    people.sign_out(here)
    assert reason(people.session, here).reason == "unauthorized"
    assert people.session(there).user.name == "ana"
    assert [action for action, *_ in people.audited()].count("user.signed_out") == 1


def test_a_person_keeps_the_latest_twenty_sessions(people: People, clock: TestClock) -> None:
    password = people.add()
    tokens = []
    for _ in range(21):
        tokens.append(people.sign_in(password).token)
        clock.advance(seconds=1)
    assert reason(people.session, tokens[0]).reason == "unauthorized"
    assert people.session(tokens[1]).user.name == "ana"
    assert len(people.rows("sessions")) == 20


def test_a_changed_password_ends_the_other_sessions_only(people: People) -> None:
    password = people.add()
    here, there = people.sign_in(password).token, people.sign_in(password).token
    user = people.change(here, password, NEW)
    assert not user.password_is_temporary
    assert people.session(here).user == user
    assert reason(people.session, there).reason == "unauthorized"
    assert reason(people.sign_in, password).reason == "unauthorized"
    assert people.sign_in(NEW).token


def test_a_password_is_not_changed_by_who_does_not_know_it(people: People) -> None:
    password = people.add()
    token = people.sign_in(password).token
    assert reason(people.change, token, WRONG, NEW).problems == {"password": "must be the password until now"}
    assert people.sign_in(password).token
    assert people.audited()[-2][0] == "user.sign_in_refused"


def test_a_new_password_is_long_and_differs_from_the_old(people: People) -> None:
    password = people.add()
    token = people.sign_in(password).token
    assert set(reason(people.change, token, password, "too-short-1").problems) == {"new_password"}
    assert set(reason(people.change, token, password, password).problems) == {"new_password"}
    assert people.sign_in(password).user.password_is_temporary


def test_no_password_is_changed_without_a_session(people: People) -> None:
    password = people.add()
    token = people.sign_in(password).token
    people.sign_out(token)
    assert reason(people.change, token, password, NEW).reason == "unauthorized"
    assert people.sign_in(password).token


def test_upkeep_deletes_sessions_and_tries_past_their_time(people: People, clock: TestClock) -> None:
    people.sign_in(people.add())
    reason(people.sign_in, WRONG)
    clock.advance(days=1, seconds=1)
    write, rows = people.services.database.write, {"sessions": 1, "sign_in_tries": 3}
    assert {rule.name: write(partial(rule.delete_batch, now=clock.now)) for rule in RETENTION} == rows
    assert not people.rows("sessions")
    assert not people.rows("sign_in_tries")


def test_a_session_goes_on_after_a_step_of_the_clock_back_and_lasts_no_longer_for_it(
    people: People, clock: TestClock
) -> None:
    token = people.sign_in(people.add()).token
    clock.advance(seconds=-600)
    assert people.session(token).user.name == "ana"
    clock.advance(seconds=HOUR)
    assert reason(people.session, token).message == "The session has ended."


def test_no_session_lasts_for_days_because_a_clock_that_was_ahead_began_it(people: People, clock: TestClock) -> None:
    clock.advance(days=30)
    token = people.sign_in(people.add()).token
    clock.advance(days=-30)
    assert reason(people.session, token).message == "The session has ended."
