"""Client of the identity provider: reads its discovery document and keys, and exchanges codes for verified claims.

No row is stored while a person signs in: the browser keeps the secret to which the provider's answer is bound.
"""

import asyncio
import hashlib
import hmac
import logging
import re
import secrets
import time
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Mapping
from threading import BoundedSemaphore, Lock
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar
from urllib.parse import quote, urlencode

from backend.common.clock import Clock
from backend.common.errors import ApiError
from backend.common.secrets import SecretError, Secrets
from backend.services.users.oidc import tokens
from backend.services.users.oidc.http import ProviderError, ProviderHttp, is_safe
from backend.services.users.oidc.tokens import Claims, TokenError, UnknownKeyError, keys_of, verified_claims
from backend.settings import IdentityProvider
from workflow_api.v1 import errors_pb2

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from joserfc.jwk import Key


ATTEMPT_MS: Final = 10 * 60_000

_SECRET: Final = re.compile(r"([0-9]{1,15})\.[A-Za-z0-9_-]{43}")


class SignInAttempt(NamedTuple):
    """Values derived from the secret of one sign-in, each of 256 bits in 43 characters."""

    state: str
    nonce: str
    verifier: str

    @property
    def challenge(self) -> str:
        """The PKCE challenge of the verifier, by S256."""
        return _base64url(hashlib.sha256(self.verifier.encode()).digest())


def new_secret(now: int) -> str:
    """Returns the secret of a sign-in that begins now."""
    return f"{now}.{secrets.token_urlsafe(32)}"


def attempt_of(secret: str, now: int) -> SignInAttempt | None:
    """Returns the attempt of a secret; None if the secret is malformed or too old."""
    found = _SECRET.fullmatch(secret)
    if found is None or not 0 <= now - int(found[1]) < ATTEMPT_MS:
        return None
    return SignInAttempt(*(_derived(secret, use) for use in SignInAttempt._fields))


def _derived(secret: str, use: str) -> str:
    return _base64url(hmac.digest(secret.encode(), f"workflow-api oidc {use}".encode(), "sha256"))


def _base64url(content: bytes) -> str:
    return urlsafe_b64encode(content).decode().rstrip("=")


_LOG: Final = logging.getLogger(__name__)
_BEARER_TOKEN: Final = re.compile(r"[!-~]{1,16384}")
_CACHED_SECONDS: Final = 3_600
_RETRY_SECONDS: Final = 5
_POLL_SECONDS: Final = 0.02
_CALLERS: Final = 2
"""Most concurrent sign-ins at the provider: each holds one of the few threads that all other calls need too."""


T = TypeVar("T")


class ConfirmedPerson(NamedTuple):
    """The ID token of a person, and its verified claims, completed by UserInfo if some are missing."""

    claims: Claims
    id_token: str


class _Endpoints(NamedTuple):
    authorization: str
    token: str
    keys: str
    user_info: str | None
    end_session: str | None
    secret_in_body: bool
    sends_issuer: bool


class Provider:
    """Client of one provider; caches description and keys for an hour, and reads keys again for an unknown key."""

    def __init__(self, settings: IdentityProvider, secrets: Secrets, clock: Clock) -> None:
        self.settings = settings
        self._secrets = secrets
        self._clock = clock
        self._callers = BoundedSemaphore(_CALLERS)
        self._discovering = Lock()
        self._endpoints: tuple[_Endpoints, float] | None = None
        self._keys: tuple[list[Key], float] | None = None
        self._failed_at = -float(_RETRY_SECONDS)

    def examine(self) -> int:
        """Reads the provider's description and its keys, and returns the number of usable keys.

        Raises:
            ProviderError: description or keys cannot be read; the text says why.
            TimeoutError: the provider does not answer within the time of the settings.
        """

        async def work(http: ProviderHttp) -> int:
            return len(await self._read_keys(http, await self._fetch_description(http)))

        return asyncio.run(self._bounded(work))

    def authorization_url(self, attempt: SignInAttempt, redirect_uri: str) -> str:
        """Returns the address where a browser signs in.

        Raises:
            ApiError: `runtime_unreachable`, the provider cannot be reached; `rate_limited`.
        """
        endpoints = self._still_fresh(self._endpoints) or self._call(self._discover)
        parameters = {
            "response_type": "code",
            "client_id": self.settings.client_id,
            "redirect_uri": redirect_uri,
            "scope": self.settings.scopes,
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": attempt.challenge,
            "code_challenge_method": "S256",
        }
        return _with_query(endpoints.authorization, parameters)

    def sign_out_url(self, redirect_uri: str, id_token: str) -> str | None:
        """Returns the address where a browser signs out at the provider; None if the provider has none.

        Args:
            redirect_uri: The address to which the provider sends the browser afterwards.
            id_token: The token of the sign-in; "" if it is lost, in which case the provider asks the person.

        Raises:
            ApiError: `runtime_unreachable`, the provider cannot be reached; `rate_limited`.
        """
        endpoints = self._still_fresh(self._endpoints) or self._call(self._discover)
        if endpoints.end_session is None:
            return None
        parameters = {"client_id": self.settings.client_id, "post_logout_redirect_uri": redirect_uri}
        return _with_query(endpoints.end_session, parameters | ({"id_token_hint": id_token} if id_token else {}))

    def confirm_person(
        self, attempt: SignInAttempt, code: str, redirect_uri: str, answered_by: str | None
    ) -> ConfirmedPerson:
        """Exchanges an authorization code for the verified claims of a person.

        Args:
            attempt: The sign-in that the code answers.
            code: The authorization code that the browser brought back.
            redirect_uri: The address that was given when the sign-in began.
            answered_by: The issuer in the authorization response, None if it has none (RFC 9207).

        Raises:
            TokenError: the code or its token cannot be trusted; the text says why.
            ApiError: `runtime_unreachable`, the provider cannot be reached; `rate_limited`.
        """

        async def work(http: ProviderHttp) -> ConfirmedPerson:
            endpoints = self._still_fresh(self._endpoints) or await self._discover(http)
            if (answered_by or ("" if endpoints.sends_issuer else self.settings.issuer)) != self.settings.issuer:
                raise TokenError("another issuer sent the browser back")
            token, access_token = await self._exchange_code(http, endpoints, attempt, code, redirect_uri)
            claims = await self._claims(http, endpoints, token, attempt)
            if endpoints.user_info is None or not access_token or not tokens.lacks_claims(claims, self.settings):
                return ConfirmedPerson(claims, token)
            user_info = await http.get(endpoints.user_info, {"authorization": f"Bearer {access_token}"})
            if user_info.get("sub") != claims["sub"]:
                raise TokenError("UserInfo is of another person")
            return ConfirmedPerson(tokens.add_user_info(claims, user_info, self.settings), token)

        return self._call(work)

    async def _claims(self, http: ProviderHttp, endpoints: _Endpoints, token: str, attempt: SignInAttempt) -> Claims:
        keys = self._still_fresh(self._keys)
        if keys is not None:
            try:
                return self._verified(token, keys, attempt)
            except UnknownKeyError:
                pass
        return self._verified(token, await self._read_keys(http, endpoints), attempt)

    def _verified(self, token: str, keys: "list[Key]", attempt: SignInAttempt) -> Claims:
        return verified_claims(
            token,
            keys,
            issuer=self.settings.issuer,
            client_id=self.settings.client_id,
            nonce=attempt.nonce,
            now_seconds=self._clock() / 1000,
        )

    async def _discover(self, http: ProviderHttp) -> _Endpoints:
        """Returns the endpoints; one caller at a time reads them, and the others wait for its result."""
        # Each caller has an event loop of its own, whose time limit ends this wait as well.
        while not self._discovering.acquire(blocking=False):  # noqa: ASYNC110 - the holder has another loop
            await asyncio.sleep(_POLL_SECONDS)
        try:
            known = self._still_fresh(self._endpoints)
            if known is not None:
                return known
            if time.monotonic() - self._failed_at < _RETRY_SECONDS:
                raise ProviderError("it did not answer a moment ago")
            try:
                endpoints = await self._fetch_description(http)
            except BaseException:
                self._failed_at = time.monotonic()
                raise
            self._endpoints = endpoints, time.monotonic()
            return endpoints
        finally:
            self._discovering.release()

    async def _fetch_description(self, http: ProviderHttp) -> _Endpoints:
        document = await http.get(f"{self.settings.issuer.rstrip('/')}/.well-known/openid-configuration")
        if document.get("issuer") != self.settings.issuer:
            raise ProviderError("its description names another issuer than oidc.issuer")
        authorization, token, keys = (
            _address(document.get(name)) for name in ("authorization_endpoint", "token_endpoint", "jwks_uri")
        )
        user_info, end_session = (
            None if document.get(name) is None else _address(document[name])
            for name in ("userinfo_endpoint", "end_session_endpoint")
        )
        methods = document.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        return _Endpoints(
            authorization,
            token,
            keys,
            user_info,
            end_session,
            secret_in_body=isinstance(methods, list) and "client_secret_basic" not in methods,
            sends_issuer=document.get("authorization_response_iss_parameter_supported") is True,
        )

    async def _read_keys(self, http: ProviderHttp, endpoints: _Endpoints) -> "list[Key]":
        keys = keys_of(await http.get(endpoints.keys))
        self._keys = (keys, time.monotonic())
        return keys

    async def _exchange_code(
        self, http: ProviderHttp, endpoints: _Endpoints, attempt: SignInAttempt, code: str, redirect_uri: str
    ) -> tuple[str, str]:
        """Returns the ID token for a code, and the access token; "" for the latter if it is no bearer token."""
        try:
            secret = self._secrets.get(self.settings.client_secret)
        except SecretError as error:
            raise ProviderError(str(error)) from error
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": attempt.verifier,
        }
        headers: dict[str, str] = {}
        if endpoints.secret_in_body:
            form |= {"client_id": self.settings.client_id, "client_secret": secret}
        else:
            pair = f"{quote(self.settings.client_id, safe='')}:{quote(secret, safe='')}"
            headers["authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        try:
            answer = await http.post(endpoints.token, form, headers)
        except ProviderError as error:
            if error.status == 400:
                raise TokenError("the provider did not accept the code") from error
            raise
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise TokenError("there is none")
        access_token = answer.get("access_token")
        usable = isinstance(access_token, str) and _BEARER_TOKEN.fullmatch(access_token)
        return token, str(access_token) if usable else ""

    def _call(self, work: "Callable[[ProviderHttp], Coroutine[object, None, T]]") -> T:
        """Calls the provider within the time of the settings."""
        if not self._callers.acquire(blocking=False):
            raise ApiError(
                errors_pb2.ERROR_REASON_RATE_LIMITED, "Too many sign-ins are under way; try again.", retry_after=1
            )
        try:
            return asyncio.run(self._bounded(work))
        except (ProviderError, TimeoutError) as error:
            reason = str(error) or f"no answer within {self.settings.timeout_seconds:g} seconds"
            _LOG.warning("The identity provider of oidc.issuer: %s", reason)
            raise _unreachable() from error
        finally:
            self._callers.release()

    async def _bounded(self, work: "Callable[[ProviderHttp], Coroutine[object, None, T]]") -> T:
        async with asyncio.timeout(self.settings.timeout_seconds), ProviderHttp() as http:
            return await work(http)

    @staticmethod
    def _still_fresh(read: tuple[T, float] | None) -> T | None:
        return read[0] if read is not None and time.monotonic() - read[1] < _CACHED_SECONDS else None


def _with_query(address: str, parameters: Mapping[str, str]) -> str:
    return f"{address}{'&' if '?' in address else '?'}{urlencode(parameters)}"


def _address(given: object) -> str:
    if not isinstance(given, str) or not is_safe(given):
        raise ProviderError("its description lacks an endpoint, or names one that is not https")
    return given


def _unreachable() -> ApiError:
    return ApiError(
        errors_pb2.ERROR_REASON_RUNTIME_UNREACHABLE, "The identity provider does not answer as it should; try again."
    )
