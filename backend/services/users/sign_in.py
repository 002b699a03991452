"""Sign-in with name and password: sessions, and the challenges that a second factor answers."""

import secrets
from base64 import urlsafe_b64encode
from typing import Final, Literal, NamedTuple

from backend.common.clock import Clock
from backend.common.errors import ApiError, invalid
from backend.services.audit import sql as audit
from backend.services.dependencies import Services
from backend.services.users import passkeys_sql, rules, sql, tries_sql
from backend.services.users.passwords import Passwords, PasswordVerifier
from backend.services.users.rules import SESSION_MS, TRIES_KEPT_MS
from backend.services.users.tries import SignInTries
from backend.storage.database import Tx
from backend.storage.retention import RowRetention
from backend.storage.tables.users import ChallengeRow, UserRow
from workflow_api.v1 import errors_pb2

CHALLENGE_MS: Final = 5 * 60_000

Purpose = Literal["sign_in", "register", "confirm"]


class Challenges:
    """Issues, finds and takes challenges in the caller's transaction."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def issue(self, tx: Tx, token: str, name: str, purpose: Purpose) -> str:
        """Returns a new challenge for a person's browser, in place of an earlier one."""
        now = self._clock()
        passkeys_sql.remove_old_challenges(tx, now - CHALLENGE_MS)
        challenge = urlsafe_b64encode(secrets.token_bytes(32)).decode().rstrip("=")
        passkeys_sql.add_challenge(tx, ChallengeRow(_key(token, purpose), name, purpose, challenge, now))
        return challenge

    def find(self, tx: Tx, token: str, purpose: Purpose) -> ChallengeRow:
        """Returns the challenge that was issued under a token.

        Raises:
            ApiError: `unauthorized`, there is no challenge, or it is too old.
        """
        row = passkeys_sql.challenge(tx, _key(token, purpose))
        if row is None or row.purpose != purpose or not 0 <= self._clock() - row.created_at < CHALLENGE_MS:
            raise expired()
        return row

    def reissue(self, tx: Tx, row: ChallengeRow) -> str:
        """Returns another challenge under the token, without extending its time."""
        challenge = urlsafe_b64encode(secrets.token_bytes(32)).decode().rstrip("=")
        passkeys_sql.replace_challenge(tx, row.token_sha256, challenge)
        return challenge

    @staticmethod
    def take(tx: Tx, row: ChallengeRow) -> None:
        """Withdraws the challenge, whether or not its answer is right."""
        passkeys_sql.replace_challenge(tx, row.token_sha256, None)


def expired() -> ApiError:
    """Returns the error for an answer whose challenge is missing or too old."""
    return ApiError(errors_pb2.ERROR_REASON_UNAUTHORIZED, "This took too long, or was done already: begin again.")


def _key(token: str, purpose: Purpose) -> str:
    return rules.sha256_hex(f"{purpose} {token}")


class NewSession(NamedTuple):
    """New session: its token, which is not stored, its user's row, and when it began.

    With `pending` the token belongs to a sign-in that a passkey is to finish, and there is no session yet. `id_token`
    is the identity provider's, "" for other sign-ins.
    """

    token: str
    row: UserRow
    began_at: int
    pending: bool = False
    id_token: str = ""


class SignIns:
    """Begins sessions, finds them by their token, and ends them."""

    def __init__(self, services: Services, passwords: Passwords, *, administrators_need_passkey: bool = False) -> None:
        self._services = services
        self._administrators_need_passkey = administrators_need_passkey
        self._challenges = Challenges(services.clock)
        self._passwords = passwords
        self._verifier = PasswordVerifier(services, passwords)

    def sign_in(self, name: str, password: str, address: str, actor: str) -> NewSession:
        """Begins a session, or leaves the sign-in pending if the person has a passkey.

        Raises:
            ApiError: `unauthorized`, which never says why; `rate_limited`.
        """
        verified = self._verifier.verify(name, password, actor, address)
        if verified is None:
            raise _wrong()
        token, now = rules.new_token(), self._services.clock()

        def work(tx: Tx) -> NewSession:
            row = sql.get(tx, name)
            if row is None or not verified.matches(row):
                raise _wrong()
            fresh: dict[str, object] = {"password_hash": verified.fresh_hash or row.password_hash}
            if passkeys_sql.count(tx, name):
                sql.edit(tx, row, fresh)
                self._challenges.issue(tx, token, name, "sign_in")
                return NewSession(token, row, now, pending=True)
            sql.edit(tx, row, {"signed_in_at": now, **fresh})
            sql.open_session(tx, token_sha256=rules.sha256_hex(token), name=name, now=now, most=rules.MAX_SESSIONS)
            SignInTries.forget(tx, name, address)
            details = {"by": "password"} | ({"address": address} if address else {})
            audit.record(tx, at=now, actor=actor, action="user.signed_in", target=name, details=details)
            return NewSession(token, sql.get_existing(tx, name), now)

        return self._services.database.write(work, lock_key=sql.LOCK_KEY)

    def passkey_required(self, person: UserRow | sql.SessionRow) -> bool:
        """Returns whether the person must have a passkey."""
        return self._administrators_need_passkey and person.role == "administrator" and person.issuer is None

    def needs_passkey(self, person: UserRow | sql.SessionRow) -> bool:
        """Returns whether the person must have a passkey, and has none."""
        if not self.passkey_required(person):
            return False
        return not self._services.database.read(lambda tx: passkeys_sql.count(tx, person.name))

    def session(self, token: str, *, used: bool = True) -> sql.SessionRow:
        """Returns the session of a token with the columns of its user; records the use if it was `used`.

        Raises:
            ApiError: `unauthorized`, the session has ended or never existed.
        """
        token_sha256, now = rules.sha256_hex(token), self._services.clock()
        session = self._services.database.read(lambda tx: self._require_session(tx, token_sha256))
        if used and rules.must_record_use(session.used_at, now):
            self._services.database.write(lambda tx: sql.use_session(tx, token_sha256, now), lock_key=sql.LOCK_KEY)
        return session

    def set_preferences(self, token: str, preferences: str) -> UserRow:
        """Stores the preferences of a session's person, as JSON.

        Raises:
            ApiError: `unauthorized`, the session has ended or never existed.
        """
        name = self.session(token).name

        def work(tx: Tx) -> UserRow:
            sql.edit(tx, sql.get_existing(tx, name), {"preferences": preferences})
            return sql.get_existing(tx, name)

        return self._services.database.write(work, lock_key=sql.LOCK_KEY)

    def sign_out(self, token: str, actor: str) -> sql.SessionRow | None:
        """Ends a session, and returns its row; None if there is no such session."""
        token_sha256 = rules.sha256_hex(token)

        def work(tx: Tx) -> sql.SessionRow | None:
            session = sql.session(tx, token_sha256)
            if session is not None:
                sql.end_session(tx, token_sha256)
                audit.record(tx, at=self._services.clock(), actor=actor, action="user.signed_out", target=session.name)
            return session

        return self._services.database.write(work, lock_key=sql.LOCK_KEY)

    def change_password(self, token: str, password: str, new: str, address: str, actor: str) -> UserRow:
        """Changes the password of a session's person, ends their other sessions, and returns the person.

        Raises:
            ApiError: `unauthorized`, the session has ended; `invalid_request`; `rate_limited`.
        """
        token_sha256 = rules.sha256_hex(token)
        session = self.session(token)
        if session.issuer is not None:
            raise invalid("new_password", "must not be set: you sign in with the identity provider")
        name = session.name
        if new == password:
            raise invalid("new_password", "must differ from the password until now")
        verified = self._verifier.verify(name, password, actor, address)
        if verified is None:
            raise invalid("password", "must be the password until now")
        with self._passwords.slot_of_authenticated():
            new_hash = self._passwords.hash(new)

        def work(tx: Tx) -> UserRow:
            self._require_session(tx, token_sha256)
            row = sql.get(tx, name)
            if row is None or not verified.matches(row):
                raise _ended()
            sql.edit(tx, row, {"password_hash": new_hash, "password_is_temporary": 0})
            sql.end_sessions(tx, name, excluded=token_sha256)
            SignInTries.forget(tx, name, address)
            audit.record(tx, at=self._services.clock(), actor=actor, action="user.password_changed", target=name)
            return sql.get_existing(tx, name)

        return self._services.database.write(work, lock_key=sql.LOCK_KEY)

    def _require_session(self, tx: Tx, token_sha256: str) -> sql.SessionRow:
        session = sql.session(tx, token_sha256)
        if session is None or not rules.is_session_valid(session, self._services.clock()):
            raise _ended()
        return session


def _wrong() -> ApiError:
    return ApiError(errors_pb2.ERROR_REASON_UNAUTHORIZED, "The name or the password is wrong.")


def _ended() -> ApiError:
    return ApiError(errors_pb2.ERROR_REASON_UNAUTHORIZED, "The session has ended.")


RETENTION: Final = (
    RowRetention("sessions", SESSION_MS, sql.purge_sessions),
    RowRetention("sign_in_tries", TRIES_KEPT_MS, tries_sql.purge),
)
