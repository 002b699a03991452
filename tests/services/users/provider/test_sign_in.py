"""Who may enter by an identity provider, and what becomes of them."""

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self
from urllib.parse import parse_qsl

import pytest

from backend.common.secrets import Secrets
from backend.services.users.oidc.http import ProviderHttp
from backend.services.users.oidc.provider import Provider, SignInAttempt
from backend.settings import IdentityProvider as Settings
from tests.services.users.conftest import ADDRESS, LIMIT, WRONG, People, reason
from tests.services.users.provider.conftest import REFUSED, RETURN, ROLES, SIGNED_OUT, NewSignIns, SignIns
from tests.support.identity_provider import (
    CLIENT_ID,
    CLIENT_SECRET,
    Claims,
    IdentityProvider,
)
from tests.support.poll import until
from workflow_api.v1 import sessions_pb2, users_pb2


def test_a_person_of_the_provider_is_added_at_the_first_sign_in_and_found_at_the_next(sign_ins: SignIns) -> None:
    first = sign_ins.sign_in()
    assert (first.user.name, first.user.role, first.user.of_provider) == ("ana", users_pb2.ROLE_ADMINISTRATOR, True)
    assert sign_ins.people.session(first.token).user == first.user
    sign_ins.provider.person["preferred_username"] = "married"
    assert sign_ins.sign_in().user.name == "ana"
    by = {"by": "identity provider"}
    assert sign_ins.people.audited() == [
        ("user.added", "ana", "console", {"role": "administrator", **by}),
        ("user.signed_in", "ana", "console", {"address": ADDRESS, **by}),
        ("user.signed_in", "ana", "console", {"address": ADDRESS, **by}),
    ]


def test_a_name_that_another_person_has_is_told_apart_and_never_shared(sign_ins: SignIns) -> None:
    password = sign_ins.people.add("ana", users_pb2.ROLE_APPROVER)
    made = sign_ins.sign_in().user
    assert made.name.startswith("ana-")
    sign_ins.provider.person["sub"] = "s-2"
    assert sign_ins.sign_in().user.name not in {"ana", made.name}
    assert sign_ins.people.sign_in(password).user.role == users_pb2.ROLE_APPROVER


def test_a_role_follows_the_claims_at_the_next_sign_in(sign_ins: SignIns) -> None:
    token = sign_ins.sign_in().token
    sign_ins.provider.person["groups"] = "staff"
    assert sign_ins.sign_in().user.role == users_pb2.ROLE_APPROVER
    assert sign_ins.people.session(token).user.role == users_pb2.ROLE_APPROVER
    changed = {"role": "approver", "before": "administrator", "by": "identity provider"}
    assert ("user.role_changed", "ana", "console", changed) in sign_ins.people.audited()


@pytest.mark.parametrize(
    ("claims", "settings"),
    [
        ({"groups": []}, {}),
        ({"groups": ["Platform"]}, {}),
        ({"groups": {"platform": True}}, {}),
        ({}, {"role_claim": "realm_access.roles"}),
        ({"email": "ana@example.org"}, {"email_domains": ("example.org",)}),
        ({"email": "ana@evil.example", "email_verified": True}, {"email_domains": ("example.org",)}),
        ({"email": "ana@example.org@evil.example", "email_verified": True}, {"email_domains": ("example.org",)}),
    ],
)
def test_who_matches_nothing_does_not_enter(configured: NewSignIns, claims: Claims, settings: dict[str, Any]) -> None:
    sign_ins = configured(**settings)
    sign_ins.provider.person |= claims
    assert "may not sign in here" in reason(sign_ins.sign_in).message
    assert not sign_ins.people.users()
    (refused,) = sign_ins.people.audited()
    assert (refused[0], refused[3]["reason"]) == ("user.sign_in_refused", "no role")


@pytest.mark.parametrize(
    ("claims", "settings"),
    [
        ({"realm_access": {"roles": ["platform"]}}, {"role_claim": "realm_access.roles"}),
        ({"https://example.org/roles": "platform"}, {"role_claim": "https://example.org/roles"}),
        ({"email": "ana@Example.org", "email_verified": True}, {"email_domains": ("example.org",)}),
    ],
)
def test_who_matches_enters(configured: NewSignIns, claims: Claims, settings: dict[str, Any]) -> None:
    sign_ins = configured(**settings)
    sign_ins.provider.person |= claims
    assert sign_ins.sign_in().user.role == users_pb2.ROLE_ADMINISTRATOR


@pytest.mark.parametrize(
    ("lacking", "told", "settings"),
    [
        (["groups"], {"groups": ["platform"]}, {}),
        (["groups"], {"realm_access": {"roles": ["platform"]}}, {"role_claim": "realm_access.roles"}),
        ([], {"email": "ana@example.org", "email_verified": True}, {"email_domains": ("example.org",)}),
    ],
)
def test_claims_that_the_token_lacks_are_asked_of_user_info(
    configured: NewSignIns, lacking: list[str], told: Claims, settings: dict[str, Any]
) -> None:
    sign_ins = configured(**settings)
    for name in lacking:
        del sign_ins.provider.person[name]
    sign_ins.provider.user_info = {"sub": "s-1", **told}
    assert sign_ins.sign_in().user.role == users_pb2.ROLE_ADMINISTRATOR


def test_user_info_is_not_asked_for_what_the_token_says_and_never_overrides_it(sign_ins: SignIns) -> None:
    sign_ins.provider.user_info = {"sub": "s-1", "groups": ["platform"], "preferred_username": "other"}
    sign_ins.provider.person["groups"] = ["staff"]
    assert sign_ins.sign_in().user.role == users_pb2.ROLE_APPROVER
    assert "/userinfo" not in sign_ins.provider.asked
    del sign_ins.provider.person["preferred_username"]
    sign_ins.provider.person["sub"] = sign_ins.provider.user_info["sub"] = "s-2"
    entered = sign_ins.sign_in().user
    assert (entered.name, entered.role) == ("other", users_pb2.ROLE_APPROVER)


def test_a_verified_address_is_never_put_together_of_token_and_user_info(configured: NewSignIns) -> None:
    sign_ins = configured(email_domains=("example.org",))
    sign_ins.provider.person["email"] = "ana@example.org"
    sign_ins.provider.user_info = {"sub": "s-1", "email": "ana@elsewhere.example", "email_verified": True}
    assert "may not sign in here" in reason(sign_ins.sign_in).message


def test_user_info_of_another_person_is_refused(sign_ins: SignIns) -> None:
    del sign_ins.provider.person["groups"]
    sign_ins.provider.user_info = {"sub": "s-2", "groups": ["platform"]}
    assert reason(sign_ins.sign_in).message == REFUSED
    sign_ins.provider.user_info = {"groups": ["platform"]}
    assert reason(sign_ins.sign_in).message == REFUSED
    assert not sign_ins.people.users()


def test_user_info_that_cannot_be_read_is_the_failure_of_the_provider(sign_ins: SignIns) -> None:
    del sign_ins.provider.person["groups"]
    sign_ins.provider.discovery = {"userinfo_endpoint": f"{sign_ins.provider.issuer}/missing"}
    assert reason(sign_ins.sign_in).reason == "runtime_unreachable"


def test_without_user_info_the_token_decides(sign_ins: SignIns) -> None:
    sign_ins.provider.discovery = {"userinfo_endpoint": None}
    del sign_ins.provider.person["groups"]
    assert "may not sign in here" in reason(sign_ins.sign_in).message


def _sign_out(sign_ins: SignIns, token: str, **more: str) -> sessions_pb2.SignOutResponse:
    request = sessions_pb2.SignOutRequest(token=token, **more)
    answer: sessions_pb2.SignOutResponse = sign_ins.people.call("SignOut", request, actor="console")
    return answer


def test_who_came_from_the_provider_is_led_there_to_sign_out(sign_ins: SignIns) -> None:
    session = sign_ins.sign_in()
    answer = _sign_out(sign_ins, session.token, redirect_uri=SIGNED_OUT, id_token=session.id_token)
    address, _, query = answer.provider_url.partition("?")
    assert address == f"{sign_ins.provider.issuer}/leave"
    assert dict(parse_qsl(query)) == {
        "client_id": CLIENT_ID,
        "post_logout_redirect_uri": SIGNED_OUT,
        "id_token_hint": session.id_token,
    }
    assert session.id_token.count(".") == 2
    assert reason(sign_ins.people.session, session.token).reason == "unauthorized"
    again = sign_ins.sign_in()
    without_token = _sign_out(sign_ins, again.token, redirect_uri=SIGNED_OUT)
    assert "id_token_hint" not in without_token.provider_url


def test_who_came_with_a_password_is_not_led_to_the_provider(sign_ins: SignIns) -> None:
    token = sign_ins.people.sign_in(sign_ins.people.add("bo", users_pb2.ROLE_APPROVER), "bo").token
    assert not _sign_out(sign_ins, token, redirect_uri=SIGNED_OUT).HasField("provider_url")


@pytest.mark.parametrize(
    ("settings", "discovery"), [({"sign_out": False}, {}), ({}, {"end_session_endpoint": None})], ids=str
)
def test_sign_out_stays_here_where_the_provider_or_the_settings_have_no_part_in_it(
    configured: NewSignIns, settings: dict[str, Any], discovery: Claims
) -> None:
    sign_ins = configured(**settings)
    sign_ins.provider.discovery = discovery
    token = sign_ins.sign_in().token
    assert not _sign_out(sign_ins, token, redirect_uri=SIGNED_OUT).HasField("provider_url")
    assert reason(sign_ins.people.session, token).reason == "unauthorized"


def test_who_has_lost_the_role_is_signed_out_at_the_next_try(sign_ins: SignIns) -> None:
    token = sign_ins.sign_in().token
    sign_ins.provider.person["groups"] = []
    reason(sign_ins.sign_in)
    assert reason(sign_ins.people.session, token).reason == "unauthorized"


def test_a_disabled_person_of_the_provider_enters_again_once_enabled(sign_ins: SignIns) -> None:
    token = sign_ins.sign_in().token
    sign_ins.people.disable()
    assert reason(sign_ins.people.session, token).reason == "unauthorized"
    assert reason(sign_ins.sign_in).reason == "unauthorized"
    enable = users_pb2.EnableUserRequest(name="ana")
    assert not sign_ins.people.call("EnableUser", enable).disabled
    assert sign_ins.sign_in().token


def test_people_of_the_provider_have_no_password(sign_ins: SignIns) -> None:
    token = sign_ins.sign_in().token
    people = sign_ins.people
    assert set(reason(people.reset).problems) == {"name"}
    assert set(reason(people.change, token, WRONG, "a new long password").problems) == {"new_password"}
    assert reason(people.sign_in, WRONG).reason == "unauthorized"
    people.disable()
    assert set(reason(people.add).problems) == {"name"}


def test_a_person_with_a_password_is_not_enabled_without_one(sign_ins: SignIns) -> None:
    sign_ins.people.add()
    sign_ins.people.disable()
    enable = users_pb2.EnableUserRequest(name="ana")
    assert set(reason(sign_ins.people.call, "EnableUser", enable).problems) == {"name"}


def test_no_more_people_enter_than_the_settings_allow(sign_ins: SignIns) -> None:
    for name in ("bo", "cy", "di"):
        sign_ins.people.add(name)
    assert f"At most {LIMIT}" in reason(sign_ins.sign_in).message


@pytest.mark.parametrize(
    "discovery",
    [
        {"issuer": "https://login.example.org"},
        {"token_endpoint": "http://login.example.org/token"},
        {"jwks_uri": None},
        {"filler": "x" * 300_000},
    ],
)
def test_a_provider_that_describes_itself_wrongly_is_not_used(
    sign_ins: SignIns, discovery: Claims, caplog: pytest.LogCaptureFixture
) -> None:
    sign_ins.provider.discovery = discovery
    with caplog.at_level(logging.WARNING):
        assert reason(sign_ins.begin).reason == "runtime_unreachable"
    assert "oidc.issuer" in caplog.text


def test_two_first_sign_ins_at_once_read_the_description_once(
    provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(issuer=provider.issuer, client_id=CLIENT_ID, client_secret="oidc", roles=ROLES)
    known = Provider(settings, Secrets({"oidc": "env:OIDC"}, {"OIDC": CLIENT_SECRET}), lambda: 0)
    let_go, described = threading.Event(), provider.describe()

    def describe() -> Claims:
        let_go.wait(60)
        return described

    class Counted(ProviderHttp):
        async def __aenter__(self) -> Self:
            calls.append(self)
            return await super().__aenter__()

    calls: list[ProviderHttp] = []
    monkeypatch.setattr("backend.services.users.oidc.provider.ProviderHttp", Counted)
    provider.describe = describe  # type: ignore[method-assign]
    with ThreadPoolExecutor(2) as threads:
        signing_in = [threads.submit(known.authorization_url, SignInAttempt("state", "nonce", "verifier"), RETURN)]
        until(lambda: provider.asked != [], "the request for the description")
        signing_in.append(threads.submit(known.authorization_url, SignInAttempt("state", "nonce", "verifier"), RETURN))
        until(lambda: len(calls) == 2, "the other sign-in")
        let_go.set()
        assert all(each.result().startswith(provider.issuer) for each in signing_in)
    assert provider.asked == ["/.well-known/openid-configuration"]


def test_a_provider_that_failed_is_not_asked_again_at_once(sign_ins: SignIns) -> None:
    sign_ins.provider.discovery = {"issuer": "https://other.example"}
    for _ in range(3):
        assert reason(sign_ins.begin).reason == "runtime_unreachable"
    assert sign_ins.provider.asked == ["/.well-known/openid-configuration"]


def test_the_secret_of_the_client_is_never_logged_or_told(
    configured: NewSignIns, caplog: pytest.LogCaptureFixture
) -> None:
    sign_ins = configured(secret="a-wrong-secret")
    with caplog.at_level(logging.DEBUG):
        refused = reason(sign_ins.sign_in)
    assert refused.reason == "runtime_unreachable"
    assert "answered 401" in caplog.text
    assert "a-wrong-secret" not in caplog.text + refused.message


def test_an_address_that_fails_sixty_times_waits(sign_ins: SignIns) -> None:
    own, attempt = sign_ins.begin()
    for _ in range(60):
        assert reason(lambda: sign_ins.finish(attempt, f"?state={own['state']}&code=guessed")).message == REFUSED
    assert reason(sign_ins.sign_in).reason == "rate_limited"
    assert sign_ins.sign_in(address="198.51.100.9").token


def test_a_deployment_without_a_provider_offers_none(people: People) -> None:
    options = people.call("GetSignInOptions", sessions_pb2.GetSignInOptionsRequest())
    assert not options.HasField("provider_label")
    request = sessions_pb2.BeginProviderSignInRequest(redirect_uri=RETURN)
    assert reason(people.call, "BeginProviderSignIn", request).reason == "invalid_request"
