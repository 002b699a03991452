"""Signs in people at the identity provider; issuer and subject identify a person."""

import hmac
import logging
from typing import Final, NamedTuple

from backend.common.errors import ApiError
from backend.services.audit import sql as audit
from backend.services.dependencies import Services
from backend.services.users import rules, sql
from backend.services.users.oidc import tokens
from backend.services.users.oidc.provider import ConfirmedPerson, Provider, attempt_of, new_secret
from backend.services.users.oidc.tokens import Claims, TokenError
from backend.services.users.passwords import Passwords
from backend.services.users.sign_in import NewSession
from backend.services.users.tries import SignInTries, limits_of_address
from backend.settings import BackendSettings
from backend.storage.database import Tx
from backend.storage.tables.users import UserRow
from workflow_api.v1 import errors_pb2

_LOG: Final = logging.getLogger(__name__)
_BY: Final = {"by": "identity provider"}


class AuthorizationResponse(NamedTuple):
    """Authorization response of the provider, as a browser brought it: see `FinishProviderSignInRequest`."""

    redirect_uri: str
    attempt: str
    state: str
    code: str
    issuer: str | None
    address: str


class ProviderSignIns:
    """Begins and finishes sign-ins at the provider; `limit` is the most enabled people."""

    def __init__(self, services: Services, passwords: Passwords, provider: Provider, limit: int) -> None:
        self._services = services
        self._passwords = passwords
        self._provider = provider
        self._limit = limit
        self._tries = SignInTries(services.clock)

    @property
    def label(self) -> str:
        """Label of the sign-in button."""
        return self._provider.settings.label

    def begin(self, redirect_uri: str) -> tuple[str, str]:
        """Returns the address where the browser signs in, and the secret that it keeps meanwhile.

        Raises:
            ApiError: `runtime_unreachable`, `rate_limited`.
        """
        now = self._services.clock()
        secret = new_secret(now)
        attempt = attempt_of(secret, now)
        assert attempt is not None
        return self._provider.authorization_url(attempt, redirect_uri), secret

    def finish(self, answer: AuthorizationResponse, actor: str) -> NewSession:
        """Begins a session of the person whom the provider names.

        Raises:
            ApiError: `unauthorized`, `runtime_unreachable`, `rate_limited`.
        """
        attempt = attempt_of(answer.attempt, self._services.clock())
        if attempt is None or not hmac.compare_digest(attempt.state.encode(), answer.state.encode()):
            raise _refused("This sign-in was not begun in this browser, or too long ago: begin again.")
        limits = limits_of_address(answer.address)
        self._services.database.write(lambda tx: self._tries.count(tx, limits), lock_key=sql.LOCK_KEY)
        try:
            person = self._provider.confirm_person(attempt, answer.code, answer.redirect_uri, answer.issuer)
        except TokenError as error:
            _LOG.warning("A sign-in with the identity provider was refused: its token is not valid, %s", error)
            raise _refused("The identity provider did not confirm who you are: begin again.") from error
        except ApiError:
            # An unreachable provider does not count as a failed try of the person.
            self._services.database.write(lambda tx: SignInTries.withdraw(tx, answer.address), lock_key=sql.LOCK_KEY)
            raise
        return self._enter(person, answer.address, actor)

    def sign_out_url(self, issuer: str | None, redirect_uri: str, id_token: str) -> str | None:
        """Returns the address where a browser ends the session at the provider too (RP-Initiated Logout 1.0).

        None if the session was not begun at the provider, the settings forbid it, or the provider has no such address
        now.
        """
        settings = self._provider.settings
        if issuer != settings.issuer or not settings.sign_out:
            return None
        try:
            return self._provider.sign_out_url(redirect_uri, id_token)
        except ApiError:
            # The console's session has ended, whether or not the provider can be reached.
            return None

    def _enter(self, person: ConfirmedPerson, address: str, actor: str) -> NewSession:
        settings, claims = self._provider.settings, person.claims
        role = tokens.role_of(claims, settings) if tokens.has_allowed_domain(claims, settings) else None
        token, now = rules.new_token(), self._services.clock()
        # Earlier releases need a hash, so people without a password get a hash that no password matches.
        unknown_hash = self._passwords.decoy_hash
        details = _BY | ({"address": address} if address else {})

        def work(tx: Tx) -> UserRow | None:
            SignInTries.withdraw(tx, address)
            row = sql.by_identity(tx, settings.issuer, str(claims["sub"]))
            if role is None or (row is not None and row.disabled_at is not None):
                if row is not None:
                    sql.end_sessions(tx, row.name)
                reason = "no role" if role is None else "disabled"
                target = tokens.name_of(claims) if row is None else row.name
                audit.record(
                    tx,
                    at=now,
                    actor=actor,
                    action="user.sign_in_refused",
                    target=target,
                    details=details | {"reason": reason},
                )
                return None
            if row is None:
                row = self._add(tx, claims, role, unknown_hash, actor)
            elif row.role != role:
                changed = {"role": role, "before": row.role} | _BY
                audit.record(tx, at=now, actor=actor, action="user.role_changed", target=row.name, details=changed)
            sql.edit(tx, row, {"role": role, "signed_in_at": now})
            sql.open_session(tx, token_sha256=rules.sha256_hex(token), name=row.name, now=now, most=rules.MAX_SESSIONS)
            audit.record(tx, at=now, actor=actor, action="user.signed_in", target=row.name, details=details)
            return sql.get_existing(tx, row.name)

        row = self._services.database.write(work, lock_key=sql.LOCK_KEY)
        if row is None:
            raise _refused("Your account may not sign in here: ask an administrator of this deployment.")
        return NewSession(token, row, now, id_token=person.id_token)

    def _add(self, tx: Tx, claims: Claims, role: str, unknown_hash: str, actor: str) -> UserRow:
        if sql.count_enabled(tx) >= self._limit:
            raise _refused(f"At most {self._limit} people may sign in here: ask an administrator of this deployment.")
        issuer, subject, now = self._provider.settings.issuer, str(claims["sub"]), self._services.clock()
        name = tokens.name_of(claims)
        if sql.get(tx, name) is not None:
            name = tokens.distinct_name(name, issuer, subject)
        columns: dict[str, object] = {
            "name": name,
            "role": role,
            "password_hash": unknown_hash,
            "password_is_temporary": 0,
            "created_at": now,
            "signed_in_at": None,
            "disabled_at": None,
            "issuer": issuer,
            "subject": subject,
        }
        sql.add(tx, columns)
        audit.record(tx, at=now, actor=actor, action="user.added", target=name, details={"role": role} | _BY)
        return sql.get_existing(tx, name)


def provider_sign_ins(services: Services, passwords: Passwords, settings: BackendSettings) -> ProviderSignIns | None:
    """Returns the sign-ins at the provider of the settings; None if they name none."""
    if settings.oidc is None:
        return None
    provider = Provider(settings.oidc, settings.secrets, services.clock)
    return ProviderSignIns(services, passwords, provider, settings.users_limit)


def _refused(message: str) -> ApiError:
    return ApiError(errors_pb2.ERROR_REASON_UNAUTHORIZED, message)
