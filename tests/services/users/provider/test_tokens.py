"""What an identity provider gives: codes, and tokens that are signed for this client and this sign-in."""

import hmac
import json
from base64 import urlsafe_b64encode
from collections.abc import Callable

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

from tests.services.conftest import TestClock
from tests.services.users.conftest import reason
from tests.services.users.provider.conftest import REFUSED, SignIns
from tests.support.identity_provider import (
    CLIENT_ID,
    Claims,
    IdentityProvider,
)


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
