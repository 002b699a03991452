"""Sign-ins with an identity provider that speaks OpenID Connect over HTTP."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from backend.common.secrets import Secrets
from backend.services.dependencies import Services
from backend.services.users.oidc.provider import Provider
from backend.services.users.oidc.sign_in import ProviderSignIns
from backend.services.users.passwords import Passwords
from backend.services.users.servicer import SessionsServicer, UsersServicer
from backend.services.users.sign_in import SignIns as OwnSignIns
from backend.settings import IdentityProvider as Settings
from tests.services.calls import Caller
from tests.services.conftest import TestClock
from tests.services.users.conftest import ADDRESS, LIMIT, SESSIONS, USERS, People
from tests.support.identity_provider import CLIENT_ID, CLIENT_SECRET, IdentityProvider, identity_provider
from workflow_api.v1 import sessions_pb2

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
        sessions = SessionsServicer(services, own, ProviderSignIns(services, passwords, known, LIMIT))
        call = Caller(UsersServicer(services, passwords, LIMIT), USERS, (sessions, SESSIONS))
        return SignIns(People(call, services), provider)

    return make


@pytest.fixture
def sign_ins(configured: NewSignIns) -> SignIns:
    return configured()
