"""PasskeysService: a passkey after the password, and what it is worth when it is not one of theirs."""

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.services.calls import RefusedError
from tests.services.conftest import TestClock
from tests.services.users.conftest import ADDRESS, WRONG, People, people_of, reason
from tests.support.authenticator import Authenticator, base64url
from workflow_api.v1 import passkeys_pb2, sessions_pb2, users_pb2

HOST = "console.example.org"
ORIGIN = f"https://{HOST}"
NEW = "a new long password"


@dataclass
class Person:
    """Somebody with a session and, once added, a passkey."""

    people: People
    password: str
    token: str
    passkey: Authenticator = field(default_factory=Authenticator)

    def add(self, passkey: Authenticator | None = None, **client: Any) -> passkeys_pb2.PasskeyRegistration:
        asked = self.begin_registration()
        return self.register((passkey or self.passkey).make(asked, **client))

    def begin_registration(self) -> str:
        begin = passkeys_pb2.BeginPasskeyRegistrationRequest(token=self.token, host=HOST)
        return str(self.people.call("BeginPasskeyRegistration", begin).options_json)

    def register(self, response: str) -> passkeys_pb2.PasskeyRegistration:
        request = passkeys_pb2.FinishPasskeyRegistrationRequest(
            token=self.token, label="laptop", answer=answer(response)
        )
        made: passkeys_pb2.PasskeyRegistration = self.people.call(
            "FinishPasskeyRegistration", request, actor="user:ana"
        )
        return made

    def pending(self) -> str:
        """A sign-in whose password was right."""
        session = self.people.sign_in(self.password)
        assert not session.token
        assert not session.HasField("user")
        return session.pending_token

    def asked(self, pending: str, host: str = HOST) -> str:
        begin = passkeys_pb2.BeginPasskeySignInRequest(pending_token=pending, host=host)
        return str(self.people.call("BeginPasskeySignIn", begin).options_json)

    def finish(self, pending: str, response: str = "", **given: Any) -> sessions_pb2.Session:
        sent = {"answer": answer(response)} if response else {}
        request = passkeys_pb2.FinishPasskeySignInRequest(
            **{"pending_token": pending, "address": ADDRESS, **sent, **given}
        )
        session: sessions_pb2.Session = self.people.call("FinishPasskeySignIn", request, actor="console")
        return session

    def sign_in(self) -> sessions_pb2.Session:
        pending = self.pending()
        return self.finish(pending, self.passkey.sign(self.asked(pending)))

    def listed(self) -> passkeys_pb2.PasskeysOfPerson:
        own: passkeys_pb2.PasskeysOfPerson = self.people.call(
            "GetPasskeys", passkeys_pb2.GetPasskeysRequest(token=self.token)
        )
        return own

    def confirm(self) -> str:
        begin = passkeys_pb2.BeginPasskeyConfirmationRequest(token=self.token, host=HOST)
        return str(self.people.call("BeginPasskeyConfirmation", begin).options_json)

    def remove(self, **confirmation: Any) -> None:
        request = passkeys_pb2.RemovePasskeyRequest(
            token=self.token, credential_id=self.passkey.id, address=ADDRESS, **confirmation
        )
        self.people.call("RemovePasskey", request, actor="user:ana")


def answer(response: str, origin: str = ORIGIN, host: str = HOST) -> passkeys_pb2.PasskeyAnswer:
    return passkeys_pb2.PasskeyAnswer(response_json=response, origin=origin, host=host)


def person_of(people: People, name: str = "ana") -> Person:
    password = people.add(name)
    return Person(people, password, people.sign_in(password, name).token)


@pytest.fixture
def ana(people: People) -> Person:
    return person_of(people)


def test_a_passkey_is_asked_for_after_the_password_and_begins_the_session(ana: Person) -> None:
    ana.add()
    session = ana.sign_in()
    assert ana.people.session(session.token).user.name == "ana"
    assert ana.sign_in().token
    signed_in = [record for record in ana.people.audited() if record[0] == "user.signed_in"]
    assert signed_in[-1][3] == {"by": "password and passkey", "address": ADDRESS}
    assert [record[0] for record in ana.people.audited()].count("user.signed_in") == 3


def test_a_wrong_password_is_refused_alike_with_and_without_a_passkey(ana: Person) -> None:
    before = reason(ana.people.sign_in, WRONG).message
    ana.add()
    assert reason(ana.people.sign_in, WRONG).message == before == reason(ana.people.sign_in, WRONG, "nobody").message


def test_passkeys_are_listed_with_their_names_and_hosts(ana: Person, clock: TestClock) -> None:
    ana.add()
    (passkey,) = ana.listed().passkeys
    assert (passkey.label, passkey.host, passkey.HasField("used_at")) == ("laptop", HOST, False)
    ana.sign_in()
    assert ana.listed().passkeys[0].HasField("used_at")
    assert ana.people.users()["ana"].passkeys == 1


@pytest.mark.parametrize(
    "client",
    [
        {"origin": "https://evil.example"},
        {"origin": f"http://{HOST}"},
        {"origin": f"{ORIGIN}:8443"},
        {"type": "webauthn.create"},
        {"challenge": base64url(b"c" * 32)},
    ],
    ids=str,
)
def test_what_was_signed_for_something_else_is_refused(ana: Person, client: dict[str, str]) -> None:
    ana.add()
    pending = ana.pending()
    refused = reason(ana.finish, pending, ana.passkey.sign(ana.asked(pending), **client))
    assert (refused.reason, refused.message) == ("unauthorized", "This passkey was not accepted: try again.")
    assert ana.people.audited()[-1][0] == "user.second_factor_refused"
    assert ana.finish(pending, ana.passkey.sign(ana.asked(pending))).token


def test_a_passkey_is_of_one_host(ana: Person) -> None:
    ana.add()
    pending = ana.pending()
    assert ana.asked(pending, "other.example.org") == ""
    signed = ana.passkey.sign(ana.asked(pending), host="evil.example")
    assert reason(ana.finish, pending, signed).reason == "unauthorized"
    other = passkeys_pb2.PasskeyAnswer(
        response_json=ana.passkey.sign(ana.asked(pending)), origin=ORIGIN, host="other.example.org"
    )
    assert reason(lambda: ana.finish(pending, answer=other)).reason == "unauthorized"


def test_an_answer_works_once(ana: Person) -> None:
    ana.add()
    first, second = ana.pending(), ana.pending()
    signed = ana.passkey.sign(ana.asked(first))
    assert reason(ana.finish, second, signed).reason == "unauthorized"
    assert ana.finish(first, signed).token
    assert "begin again" in reason(ana.finish, first, signed).message


def test_a_challenge_is_withdrawn_by_a_wrong_answer(ana: Person) -> None:
    ana.add()
    pending = ana.pending()
    asked = ana.asked(pending)
    reason(ana.finish, pending, ana.passkey.sign(asked, origin="https://evil.example"))
    assert reason(ana.finish, pending, ana.passkey.sign(asked)).reason == "unauthorized"


def test_a_sign_in_waits_five_minutes_for_the_passkey(ana: Person, clock: TestClock) -> None:
    ana.add()
    pending = ana.pending()
    clock.advance(seconds=299)
    asked = ana.asked(pending)
    clock.advance(seconds=1)
    assert reason(ana.finish, pending, ana.passkey.sign(asked)).reason == "unauthorized"
    assert reason(ana.asked, pending).reason == "unauthorized"


def test_a_copy_of_a_passkey_is_found_by_its_count(ana: Person) -> None:
    ana.add()
    ana.sign_in()
    ana.passkey.sign_count = 0
    assert reason(ana.sign_in).reason == "unauthorized"
    ana.passkey.sign_count = 7
    assert ana.sign_in().token


def test_a_passkey_that_does_not_count_works_again_and_again(ana: Person) -> None:
    ana.passkey.counts = False
    ana.add()
    assert ana.sign_in().token
    assert ana.sign_in().token


def test_the_passkey_of_another_person_is_refused(ana: Person) -> None:
    ana.add()
    bo = person_of(ana.people, "bo")
    bo.add()
    pending = ana.pending()
    assert reason(ana.finish, pending, bo.passkey.sign(ana.asked(pending))).reason == "unauthorized"
    ana.passkey.key = bo.passkey.key
    assert reason(ana.finish, pending, ana.passkey.sign(ana.asked(pending))).reason == "unauthorized"


@pytest.mark.parametrize("response", ["{", "[]", '{"id": 7}', '{"id": "x"}', "[" * 10_000], ids=lambda text: text[:9])
def test_what_is_no_answer_is_refused(ana: Person, response: str) -> None:
    ana.add()
    pending = ana.pending()
    assert reason(ana.finish, pending, response).reason == "unauthorized"
    refused = reason(ana.register, response)
    assert refused.reason in {"invalid_request", "unauthorized"}


def test_a_pending_sign_in_is_no_session_and_a_session_no_pending_sign_in(ana: Person) -> None:
    ana.add()
    pending = ana.pending()
    assert reason(ana.people.session, pending).reason == "unauthorized"
    assert reason(ana.asked, ana.token).reason == "unauthorized"
    assert reason(ana.finish, ana.token, ana.passkey.sign(ana.confirm())).reason == "unauthorized"


def test_wrong_answers_count_as_wrong_passwords_do(ana: Person) -> None:
    ana.add()
    pending = ana.pending()
    for _ in range(9):
        assert reason(lambda: ana.finish(pending, recovery_code="guessed")).reason == "unauthorized"
    assert reason(lambda: ana.finish(pending, recovery_code="guessed")).reason == "rate_limited"
    assert reason(ana.people.sign_in, ana.password).reason == "rate_limited"


def test_a_right_password_does_not_reset_the_count(ana: Person) -> None:
    ana.add()
    for _ in range(5):
        pending = ana.pending()
        assert reason(lambda pending=pending: ana.finish(pending, recovery_code="guessed")).reason == "unauthorized"
    assert reason(ana.people.sign_in, ana.password).reason == "rate_limited"


def test_a_recovery_code_stands_in_for_the_passkey_once(ana: Person) -> None:
    codes = list(ana.add().recovery_codes)
    assert len(set(codes)) == 10
    assert not ana.add(Authenticator()).recovery_codes
    pending = ana.pending()
    assert ana.finish(pending, recovery_code=codes[0].upper().replace("-", " ")).token
    pending = ana.pending()
    assert reason(lambda: ana.finish(pending, recovery_code=codes[0])).reason == "unauthorized"
    assert ana.finish(pending, recovery_code=codes[1]).token
    assert ana.listed().recovery_codes == 8
    assert ana.people.audited()[-1][3]["by"] == "password and recovery code"
    assert not any(code in str(ana.people.rows("recovery_codes")) for code in codes)


def test_new_codes_replace_the_old_ones(ana: Person) -> None:
    (old, *_) = ana.add().recovery_codes
    request = passkeys_pb2.ReplaceRecoveryCodesRequest(token=ana.token, password=ana.password)
    (new, *_) = ana.people.call("ReplaceRecoveryCodes", request).codes
    pending = ana.pending()
    assert reason(lambda: ana.finish(pending, recovery_code=old)).reason == "unauthorized"
    assert ana.finish(pending, recovery_code=new).token


def test_a_passkey_is_removed_with_the_password_or_a_passkey_only(ana: Person) -> None:
    ana.add()
    assert set(reason(ana.remove).problems) == {"password"}
    assert set(reason(lambda: ana.remove(password=WRONG)).problems) == {"password"}
    forged = answer(ana.passkey.sign(ana.confirm(), origin="https://evil.example"))
    assert set(reason(lambda: ana.remove(answer=forged)).problems) == {"answer"}
    # What was signed to sign in confirms nothing.
    pending = ana.pending()
    signed = answer(ana.passkey.sign(ana.asked(pending)))
    assert reason(lambda: ana.remove(answer=signed)).reason in {"invalid_request", "unauthorized"}
    assert len(ana.listed().passkeys) == 1
    ana.remove(answer=answer(ana.passkey.sign(ana.confirm())))
    own = ana.listed()
    assert (len(own.passkeys), own.recovery_codes) == (0, 0)
    assert ana.people.sign_in(ana.password).token


def test_a_passkey_of_another_person_is_not_removed(ana: Person) -> None:
    ana.add()
    bo = person_of(ana.people, "bo")
    bo.passkey = ana.passkey
    assert reason(lambda: bo.remove(password=bo.password)).reason == "not_found"


def test_a_passkey_is_added_once_and_for_what_was_asked(ana: Person) -> None:
    def refused(**client: Any) -> RefusedError:
        return reason(lambda: ana.add(**client))

    assert set(refused(origin="https://evil.example").problems) == {"answer"}
    assert set(refused(challenge=base64url(b"c" * 32)).problems) == {"answer"}
    asked = ana.begin_registration()
    ana.register(ana.passkey.make(asked))
    assert set(reason(ana.register, Authenticator().make(asked)).problems) == {"answer"}
    assert set(refused().problems) == {"answer"}
    assert json.loads(ana.begin_registration())["excludeCredentials"][0]["id"] == ana.passkey.id


def test_a_person_has_ten_passkeys_at_most(ana: Person) -> None:
    for _ in range(10):
        ana.add(Authenticator())
    assert "fewer than 10" in reason(ana.begin_registration).problems["token"]


def test_an_administrator_removes_the_passkeys_of_somebody_who_lost_them(ana: Person) -> None:
    ana.add()
    pending = ana.pending()
    request = users_pb2.RemoveUserPasskeysRequest(name="ana")
    ana.people.call("RemoveUserPasskeys", request, actor="root")
    assert reason(ana.people.session, ana.token).reason == "unauthorized"
    assert reason(ana.asked, pending).reason == "unauthorized"
    assert ana.people.sign_in(ana.password).token
    assert ("user.passkeys_reset", "ana", "root", {"passkeys": 1}) in ana.people.audited()


@pytest.mark.parametrize("end", ["disable", "reset", "change"])
def test_a_pending_sign_in_ends_with_what_ends_sessions(ana: Person, end: str) -> None:
    ana.add()
    pending = ana.pending()
    signed = ana.passkey.sign(ana.asked(pending))
    ends = {"disable": ana.people.disable, "reset": ana.people.reset}
    ends.get(end, lambda: ana.people.change(ana.token, ana.password, NEW))()
    assert reason(ana.finish, pending, signed).reason == "unauthorized"


def test_who_gets_the_name_of_a_disabled_person_does_not_get_the_passkeys(ana: Person) -> None:
    ana.add()
    ana.people.disable()
    assert ana.people.sign_in(ana.people.add()).token


def test_administrators_need_a_passkey_where_the_settings_say_so(ana: Person) -> None:
    strict = people_of(ana.people.services, administrators_need_passkey=True)
    session = strict.sign_in(ana.password)
    assert session.user.needs_passkey
    assert strict.session(session.token).user.needs_passkey
    ana.add()
    assert not strict.session(session.token).user.needs_passkey
    approver = strict.add("bo", users_pb2.ROLE_APPROVER)
    assert not strict.sign_in(approver, "bo").user.needs_passkey


def test_all_changes_are_audited_without_a_code(ana: Person) -> None:
    codes = ana.add().recovery_codes
    ana.people.call(
        "ReplaceRecoveryCodes", passkeys_pb2.ReplaceRecoveryCodesRequest(token=ana.token, password=ana.password)
    )
    ana.remove(password=ana.password)
    where = {"passkey": "laptop", "host": HOST}
    changes = [record[::3] for record in ana.people.audited()[-3:]]
    assert changes == [
        ("user.passkey_added", where),
        ("user.recovery_codes_made", {}),
        ("user.passkey_removed", where),
    ]
    assert codes[0] not in str(ana.people.audited())
