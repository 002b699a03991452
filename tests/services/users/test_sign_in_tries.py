"""UsersService: what failed sign-ins reveal, and their limits."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from argon2 import PasswordHasher

from backend.services.users import tries_sql
from backend.services.users.passwords import Passwords
from tests.services.calls import RefusedError
from tests.services.conftest import TestClock
from tests.services.users.conftest import ADDRESS, WRONG, People, people_of, reason


def outcomes(people: People, name: str, tries: int, address: str = ADDRESS) -> list[str]:
    return [reason(people.sign_in, WRONG, name, address).reason for _ in range(tries)]


def test_a_wrong_name_a_wrong_password_and_a_disabled_person_are_refused_alike(people: People) -> None:
    people.add("bo")
    gone = people.add("cy")
    people.disable("cy")
    refused = [reason(people.sign_in, *tried) for tried in ((WRONG, "bo"), (WRONG, "nobody"), (gone, "cy"))]
    assert {(each.reason, each.message, each.code) for each in refused} == {
        (refused[0].reason, "The name or the password is wrong.", refused[0].code)
    }


def test_a_wrong_name_costs_as_much_as_a_wrong_password(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    verified: list[str] = []
    real = Passwords.matches

    def noting(self: Passwords, kept: str, password: str) -> bool:
        verified.append(kept.rpartition("$")[0].rpartition("$")[0])
        return real(self, kept, password)

    monkeypatch.setattr(Passwords, "matches", noting)
    people.add()
    reason(people.sign_in, WRONG, "ana")
    reason(people.sign_in, WRONG, "nobody")
    assert verified == ["$argon2id$v=19$m=32,t=1,p=4"] * 2


@pytest.mark.parametrize("name", ["ana", "nobody"])
def test_ten_failures_in_a_row_lock_a_name_at_an_address_for_a_minute(
    people: People, clock: TestClock, name: str
) -> None:
    password = people.add()
    assert outcomes(people, name, 10) == ["unauthorized"] * 10
    clock.advance(seconds=20)
    refused = reason(people.sign_in, password, name)
    assert (refused.reason, refused.retry_after) == ("rate_limited", 40)
    assert people.add("bo")
    assert reason(people.sign_in, WRONG, "bo").reason == "unauthorized"
    clock.advance(seconds=40)
    assert outcomes(people, name, 11) == ["unauthorized"] * 10 + ["rate_limited"]


def test_failures_at_another_address_refuse_nobody(people: People) -> None:
    password = people.add()
    for number in range(5):
        elsewhere = f"198.51.100.{number}"
        assert outcomes(people, "ana", 11, elsewhere)[-1] == "rate_limited"
        assert people.sign_in(password).user.name == "ana"
        assert reason(people.sign_in, password, "ana", elsewhere).reason == "rate_limited"


def test_sixty_failures_lock_an_address_for_a_minute_whatever_the_names(people: People, clock: TestClock) -> None:
    password = people.add()
    crowd = "198.51.100.7"
    assert {outcomes(people, f"name-{number}", 1, crowd)[0] for number in range(60)} == {"unauthorized"}
    refused = reason(people.sign_in, password, "ana", crowd)
    assert (refused.reason, refused.retry_after) == ("rate_limited", 60)
    assert people.sign_in(password).user.name == "ana"
    clock.advance(seconds=60)
    assert people.sign_in(password, "ana", crowd).user.name == "ana"


def test_sign_ins_that_succeed_are_no_failures_of_their_address(people: People) -> None:
    password = people.add()
    for _ in range(70):
        people.sign_in(password)


def test_a_sign_in_resets_the_count(people: People) -> None:
    password = people.add()
    for _ in range(3):
        assert outcomes(people, "ana", 9) == ["unauthorized"] * 9
        people.sign_in(password)
    (address,) = people.rows("sign_in_tries")
    assert address[1] == 3 * 9, "the successes are withdrawn"


def test_a_locked_name_is_locked_at_every_backend(people: People) -> None:
    password = people.add()
    outcomes(people, "ana", 10)
    another = people_of(people.services)
    assert reason(another.sign_in, password).reason == "rate_limited"


def test_changing_the_password_counts_as_signing_in(people: People) -> None:
    password = people.add()
    token = people.sign_in(password).token
    for _ in range(10):
        assert reason(people.change, token, WRONG, "a new long password").reason == "invalid_request"
    assert reason(people.change, token, password, "a new long password").reason == "rate_limited"
    assert reason(people.sign_in, password).reason == "rate_limited"


def test_concurrent_attempts_are_limited_like_sequential_ones(people: People) -> None:
    people.add()
    with ThreadPoolExecutor(4) as pool:
        refused = list(pool.map(lambda _: reason(people.sign_in, WRONG).reason, range(24)))
    assert refused.count("unauthorized") <= 10


def test_unknown_names_do_not_fill_the_table(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tries_sql, "MAX_SUBJECTS", 5)
    outcomes(people, "first", 10)
    for number in range(12):
        outcomes(people, f"name-{number}", 1)
    assert len(people.rows("sign_in_tries")) == 5
    assert reason(people.sign_in, WRONG, "first").reason == "rate_limited"


def test_refusals_are_audited_once_a_minute_and_when_a_wait_begins(people: People, clock: TestClock) -> None:
    people.add()
    outcomes(people, "ana", 9)
    clock.advance(seconds=60)
    outcomes(people, "ana", 4)
    address = {"address": "203.0.113.7"}
    assert people.audited()[1:] == [
        ("user.sign_in_refused", "ana", "console", {**address, "tries": 1, "waits": False}),
        ("user.sign_in_refused", "ana", "console", {**address, "tries": 9, "waits": True}),
    ]


def test_unknown_names_are_counted_together_and_not_stored(people: People, clock: TestClock) -> None:
    typed = ["correct-horse", "battery", "staple"]
    for name in typed:
        outcomes(people, name, 1)
    clock.advance(seconds=60)
    outcomes(people, "unknown", 1)
    address = {"address": "203.0.113.7"}
    assert people.audited() == [
        ("user.sign_in_refused", "(nobody)", "console", {**address, "tries": 1}),
        ("user.sign_in_refused", "(nobody)", "console", {**address, "tries": 3}),
    ]
    kept = str(people.rows("sign_in_tries"))
    assert not any(name in kept for name in typed)


def test_a_disabled_person_who_knows_the_password_is_audited_as_such(people: People) -> None:
    password = people.add()
    people.disable()
    reason(people.sign_in, password)
    assert people.audited()[-1][3]["disabled"] is True


def test_a_name_may_be_typed_in_capitals(people: People) -> None:
    assert people.sign_in(people.add(), " Ana ").user.name == "ana"


def test_a_hash_with_other_parameters_is_made_anew_at_the_sign_in(people: People) -> None:
    password = people.add()
    before = people.rows("users")[0][2]
    older = PasswordHasher(time_cost=1, memory_cost=64).hash(password)
    people.services.database.write(lambda tx: tx.connection.execute(f"UPDATE users SET password_hash = '{older}'", ()))
    people.sign_in(password)
    after = people.rows("users")[0][2]
    assert after.rpartition("$")[0].rpartition("$")[0] == before.rpartition("$")[0].rpartition("$")[0]
    assert people.sign_in(password).token


def test_a_password_that_was_reset_during_a_sign_in_opens_nothing(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    password = people.add()
    real = Passwords.matches
    verifying, may_go_on = Event(), Event()

    def slow(self: Passwords, kept: str, tried: str) -> bool:
        verifying.set()
        assert may_go_on.wait(60)
        return real(self, kept, tried)

    monkeypatch.setattr(Passwords, "matches", slow)
    with ThreadPoolExecutor(1) as pool:
        signing_in = pool.submit(people.sign_in, password)
        assert verifying.wait(60)
        people.reset()
        may_go_on.set()
        with pytest.raises(RefusedError) as refused:
            signing_in.result()
    assert refused.value.reason == "unauthorized"
    assert not people.rows("sessions")


@pytest.mark.parametrize("ahead", [600, 7_200])
def test_limits_of_sign_ins_are_as_long_as_ever_after_a_clock_that_was_ahead(
    people: People, clock: TestClock, ahead: int
) -> None:
    people.add()
    crowd = "198.51.100.7"
    clock.advance(seconds=ahead)
    for number in range(59):
        outcomes(people, f"name-{number}", 1, crowd)
    audited = people.audited()
    clock.advance(seconds=-ahead)
    assert outcomes(people, "nobody", 2, crowd) == ["unauthorized"] * 2
    assert len(people.audited()) == len(audited) + 1
