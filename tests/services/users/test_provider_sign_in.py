"""Sign-in with an identity provider, against one that speaks OpenID Connect over HTTP."""

import hmac
import json
import logging
import threading
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

from backend.secrets import Secrets
from backend.services import Services
from backend.settings import IdentityProvider as Settings
from backend.users.oidc.attempt import Attempt
from backend.users.oidc.provider import Provider
from backend.users.oidc.sign_in import ProviderSignIns
from backend.users.passwords import Passwords
from backend.users.servicer import UsersServicer
from backend.users.session_servicer import SessionsServicer
from backend.users.sign_in import SignIns as OwnSignIns
from tests.services.calls import Caller
from tests.services.conftest import TestClock
from tests.services.users.conftest import ADDRESS, LIMIT, SESSIONS, USERS, WRONG, People, reason
from tests.support.identity_provider import (
    CLIENT_ID,
    CLIENT_SECRET,
    Claims,
    IdentityProvider,
    identity_provider,
)
from tests.support.poll import until
from workflow_api.v1 import sessions_pb2, users_pb2

RETURN = "https://console.example.org/sign-in/provider/return"
SIGNED_OUT = "https://console.example.org/signed-out"
ANA = {"sub": "s-1", "preferred_username": "ana", "groups": ["staff", "platform"]}
ROLES = {"platform": "administrator", "staff": "approver"}
REFUSED = "The identity provider did not confirm who you are: begin again."


@dataclass
class SignIns:
    """Signs in with the provider as a browser and the console do."""

    people: People
    provider: IdentityProvider

    def begin(self) -> tuple[dict[str, str], str]:
        """What the provider is asked, and the secret of the browser."""
        request = sessions_pb2.BeginProviderSignInRequest(redirect_uri=RETURN)
        begun = self.people.call("BeginProviderSignIn", request, actor="console")
        return dict(parse_qsl(urlsplit(begun.authorization_url).query)), begun.attempt

    def finish(self, attempt: str, back: str, **changes: Any) -> sessions_pb2.Session:
        query = dict(parse_qsl(urlsplit(back).query))
        given: dict[str, Any] = {"redirect_uri": RETURN, "attempt": attempt, "address": ADDRESS}
        given |= {"state": query["state"], "code": query["code"]}
        if "iss" in query:
            given["issuer"] = query["iss"]
        request = sessions_pb2.FinishProviderSignInRequest(**{**given, **changes})
        session: sessions_pb2.Session = self.people.call("FinishProviderSignIn", request, actor="console")
        return session

    def sign_in(self, **changes: Any) -> sessions_pb2.Session:
        asked, attempt = self.begin()
        return self.finish(attempt, self.provider.authorize(asked), **changes)


@pytest.fixture
def provider(clock: TestClock) -> Iterator[IdentityProvider]:
    with identity_provider() as provider:
        provider.person = dict(ANA)
        provider.now = lambda: clock.now / 1000
        yield provider


NewSignIns = Callable[..., SignIns]


@pytest.fixture
def configured(people: People, services: Services, provider: IdentityProvider) -> NewSignIns:
    """Sign-ins of a process with these settings."""

    def make(secret: str = CLIENT_SECRET, **settings: Any) -> SignIns:
        given: dict[str, Any] = {"client_id": CLIENT_ID, "client_secret": "oidc", "roles": ROLES, **settings}
        passwords, secrets = Passwords(), Secrets({"oidc": "env:OIDC"}, {"OIDC": secret})
        known = Provider(Settings(issuer=provider.issuer, **given), secrets, services.clock)
        own = OwnSignIns(services, passwords, administrators_need_passkey=True)
        sessions = SessionsServicer(own, ProviderSignIns(services, passwords, known, LIMIT))
        call = Caller(UsersServicer(services, passwords, LIMIT), USERS, (sessions, SESSIONS))
        return SignIns(People(call, services), provider)

    return make


@pytest.fixture
def sign_ins(configured: NewSignIns) -> SignIns:
    return configured()


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


def test_a_code_of_another_browser_is_refused(sign_ins: SignIns) -> None:
    asked, _ = sign_ins.begin()
    _, mine = sign_ins.begin()
    back = sign_ins.provider.authorize(asked)
    seen = list(sign_ins.provider.asked)
    assert "not begun in this browser" in reason(sign_ins.finish, mine, back).message
    assert sign_ins.provider.asked == seen


def test_a_code_is_bound_to_the_browser_by_pkce(sign_ins: SignIns) -> None:
    """An attacker's code under the state of one's own sign-in."""
    asked, _ = sign_ins.begin()
    own, mine = sign_ins.begin()
    stolen = sign_ins.provider.authorize(asked)
    refused = reason(lambda: sign_ins.finish(mine, stolen, state=own["state"]))
    assert refused.message == REFUSED


def test_a_sign_in_takes_ten_minutes_at_most_and_works_once(sign_ins: SignIns, clock: TestClock) -> None:
    asked, attempt = sign_ins.begin()
    back = sign_ins.provider.authorize(asked)
    assert sign_ins.finish(attempt, back).token
    assert reason(sign_ins.finish, attempt, back).message == REFUSED
    asked, attempt = sign_ins.begin()
    clock.advance(seconds=600)
    refused = reason(sign_ins.finish, attempt, sign_ins.provider.authorize(asked))
    assert "too long ago" in refused.message


@pytest.mark.parametrize(
    "changes",
    [
        {"nonce": "of another sign-in"},
        {"nonce": None},
        {"iss": "https://login.example.org"},
        {"aud": "another-client"},
        {"aud": [CLIENT_ID, "another-client"]},
        {"azp": "another-client"},
        {"exp": 1},
        {"exp": None},
        {"iat": 2**40},
        {"nbf": 2**40},
        {"iat": "yesterday"},
        {"sub": ""},
        {"sub": 7},
    ],
    ids=str,
)
def test_a_token_with_a_wrong_claim_is_refused(sign_ins: SignIns, changes: Claims) -> None:
    sign_ins.provider.token = lambda claims: sign_ins.provider.signed(claims | changes)
    assert reason(sign_ins.sign_in).message == REFUSED
    assert not sign_ins.people.users()


def test_clocks_may_differ_by_a_minute(sign_ins: SignIns, clock: TestClock) -> None:
    now = clock.now // 1000
    for times in ({"exp": now - 59}, {"iat": now + 59, "exp": now + 90}):
        sign_ins.provider.token = lambda claims, times=times: sign_ins.provider.signed(claims | times)
        assert sign_ins.sign_in().token
    for times in ({"exp": now - 61}, {"iat": now + 61, "exp": now + 90}):
        sign_ins.provider.token = lambda claims, times=times: sign_ins.provider.signed(claims | times)
        assert reason(sign_ins.sign_in).message == REFUSED


def _base64url(content: bytes) -> str:
    return urlsafe_b64encode(content).decode().rstrip("=")


def _unsigned(provider: IdentityProvider, claims: Claims) -> str:
    parts = ({"alg": "none", "kid": provider.keys[0].kid}, claims)
    return ".".join(_base64url(json.dumps(part).encode()) for part in parts) + "."


def _signed_with_the_public_key(provider: IdentityProvider, claims: Claims) -> str:
    """The public key of RS256 taken for the shared secret of HS256."""
    public = provider.keys[0].public_key
    assert not isinstance(public, bytes)
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    parts = ({"alg": "HS256", "kid": provider.keys[0].kid}, claims)
    signed = ".".join(_base64url(json.dumps(part).encode()) for part in parts)
    return f"{signed}.{_base64url(hmac.digest(pem, signed.encode(), 'sha256'))}"


def _signed_by_somebody_else(provider: IdentityProvider, claims: Claims) -> str:
    return provider.signed(claims, key=RSAKey.generate_key(2048, auto_kid=False))


def _signed_with_a_key_of_another_kind(provider: IdentityProvider, claims: Claims) -> str:
    return provider.signed(claims, "ES256", ECKey.generate_key("P-256", auto_kid=False))


def _tampered(provider: IdentityProvider, claims: Claims) -> str:
    head, _, signature = provider.signed(claims).split(".")
    body = _base64url(json.dumps(claims | {"groups": "platform"}).encode())
    return f"{head}.{body}.{signature}"


@pytest.mark.parametrize(
    "forge",
    [
        _unsigned,
        _signed_with_the_public_key,
        _signed_by_somebody_else,
        _signed_with_a_key_of_another_kind,
        _tampered,
        pytest.param(lambda *_: "", id="none"),
        pytest.param(lambda *_: "a.b.c", id="no JSON"),
        pytest.param(lambda *_: "x" * 70_000, id="long"),
    ],
)
def test_a_forged_token_is_refused(sign_ins: SignIns, forge: Callable[[IdentityProvider, Claims], str]) -> None:
    sign_ins.sign_in()
    sign_ins.provider.token = lambda claims: forge(sign_ins.provider, claims)
    assert reason(sign_ins.sign_in).message == REFUSED


def test_new_keys_of_the_provider_are_found(sign_ins: SignIns) -> None:
    sign_ins.sign_in()
    sign_ins.provider.rotate()
    sign_ins.sign_in()
    sign_ins.sign_in()
    asked = sign_ins.provider.asked
    assert (asked.count("/keys"), asked.count("/.well-known/openid-configuration")) == (2, 1)


def test_a_new_key_is_found_though_tokens_name_none(sign_ins: SignIns) -> None:
    provider = sign_ins.provider
    provider.token = lambda claims: jwt.encode({"alg": "RS256"}, claims, provider.keys[0])
    sign_ins.sign_in()
    provider.rotate()
    assert sign_ins.sign_in().token
    assert provider.asked.count("/keys") == 2


def test_an_elliptic_key_serves_as_well(sign_ins: SignIns) -> None:
    sign_ins.provider.keys = [ECKey.generate_key("P-256", {"kid": "e", "use": "sig"}, auto_kid=False)]
    sign_ins.provider.token = lambda claims: sign_ins.provider.signed(claims, "ES256")
    assert sign_ins.sign_in().token


def test_a_browser_that_another_issuer_sent_back_is_refused(sign_ins: SignIns) -> None:
    sign_ins.provider.names_itself = sign_ins.provider.issuer
    assert sign_ins.sign_in().token
    assert reason(lambda: sign_ins.sign_in(issuer="https://login.example.org")).message == REFUSED
    sign_ins.provider.names_itself = None
    assert reason(sign_ins.sign_in).message == REFUSED


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


def test_two_first_sign_ins_at_once_read_the_description_once(provider: IdentityProvider) -> None:
    settings = Settings(issuer=provider.issuer, client_id=CLIENT_ID, client_secret="oidc", roles=ROLES)
    known = Provider(settings, Secrets({"oidc": "env:OIDC"}, {"OIDC": CLIENT_SECRET}), lambda: 0)
    let_go, described = threading.Event(), provider.describe()

    def describe() -> Claims:
        let_go.wait(60)
        return described

    provider.describe = describe  # type: ignore[method-assign]
    with ThreadPoolExecutor(2) as threads:
        signing_in = [threads.submit(known.authorization_url, Attempt("state", "nonce", "verifier"), RETURN)]
        until(lambda: provider.asked != [], "the request for the description")
        signing_in.append(threads.submit(known.authorization_url, Attempt("state", "nonce", "verifier"), RETURN))
        until(lambda: known._callers._value == 0 or signing_in[1].done(), "the other sign-in")
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
