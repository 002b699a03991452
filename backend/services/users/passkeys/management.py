"""Management of a person's own passkeys and recovery codes."""

import logging
from typing import Final, NamedTuple

from backend.common.errors import ApiError, invalid
from backend.services.audit import sql as audit
from backend.services.dependencies import Services
from backend.services.users import passkeys_sql, rules, sql
from backend.services.users.passkeys import ceremony
from backend.services.users.passwords import Passwords, PasswordVerifier
from backend.services.users.sign_in import Challenges, Purpose, SignIns
from backend.services.users.tries import SignInTries, limits_of
from backend.storage.database import Tx
from backend.storage.tables.users import ChallengeRow, PasskeyRow
from workflow_api.v1 import errors_pb2

_LOG: Final = logging.getLogger(__name__)
_REFUSED: Final = "must be confirmed with a passkey of yours: try again"


class Confirmation(NamedTuple):
    """Confirmation of a change: the password or a passkey's response, and the browser's origin."""

    password: str
    answer: ceremony.PasskeyResponse | None
    address: str


class PasskeyManagement:
    """Lists, adds and removes passkeys of a session's person; each change is audited."""

    def __init__(self, services: Services, passwords: Passwords, sign_ins: SignIns) -> None:
        self._services = services
        self._sign_ins = sign_ins
        self._verifier = PasswordVerifier(services, passwords)
        self._challenges = Challenges(services.clock)
        self._tries = SignInTries(services.clock)

    def listed(self, token: str) -> tuple[list[PasskeyRow], int, bool]:
        """Returns the person's passkeys, the number of recovery codes left, and whether a passkey is required."""
        session = self._sign_ins.session(token)
        rows, codes = self._services.database.read(
            lambda tx: (passkeys_sql.of_person(tx, session.name), passkeys_sql.count_codes(tx, session.name))
        )
        return rows, codes, self._sign_ins.passkey_required(session)

    def begin_registration(self, token: str, host: str) -> str:
        """Returns the options by which the browser makes a new passkey, as JSON.

        Raises:
            ApiError: `unauthorized`; `invalid_request`, the person has no password, or enough passkeys.
        """
        session = self._sign_ins.session(token)
        if session.issuer is not None:
            raise invalid("token", "must be of somebody with a password: you sign in with the identity provider")
        challenge, known = self._ask(token, session.name, "register")
        if len(known) >= passkeys_sql.MOST_PASSKEYS:
            raise _too_many()
        return ceremony.registration_options(session.name, self._services.deployment_id, host, challenge, known)

    def register(
        self, token: str, label: str, answer: ceremony.PasskeyResponse, actor: str
    ) -> tuple[PasskeyRow, list[str]]:
        """Adds a passkey; returns it, and new recovery codes where it is the first.

        Raises:
            ApiError: `unauthorized`; `invalid_request`.
        """
        if not label.strip() or not label.isprintable():
            raise invalid("label", "must be one line of 1 to 60 characters")
        name, now = self._sign_ins.session(token).name, self._services.clock()
        asked = self._take(token, "register")
        try:
            made = ceremony.registered(answer, asked.challenge, name, label.strip(), now)
        except ceremony.PasskeyError as error:
            _LOG.warning("A new passkey of %s was refused: %s", name, error)
            raise invalid("answer", "must be what a passkey made for this page just now: try again") from error
        codes = rules.new_codes()

        def work(tx: Tx) -> bool:
            known = passkeys_sql.count(tx, name)
            if known >= passkeys_sql.MOST_PASSKEYS:
                raise _too_many()
            if passkeys_sql.get(tx, made.credential_id) is not None:
                raise invalid("answer", "must be of a passkey that is not added already")
            passkeys_sql.add(tx, made)
            if not known:
                self._replace_codes(tx, name, codes, now)
            self._record(tx, actor, "user.passkey_added", name, {"passkey": made.label, "host": made.rp_id})
            return not known

        first = self._services.database.write(work, lock_key=sql.LOCK_KEY)
        return made, codes if first else []

    def begin_confirmation(self, token: str, host: str) -> str:
        """Returns the options by which a passkey confirms a change, as JSON; empty if no passkey is of this host."""
        challenge, known = self._ask(token, self._sign_ins.session(token).name, "confirm")
        return ceremony.assertion_options(host, challenge, known)

    def remove(self, token: str, credential_id: str, confirmation: Confirmation, actor: str) -> None:
        """Removes a passkey; the recovery codes go with the last passkey.

        Raises:
            ApiError: `unauthorized`, `invalid_request`, `rate_limited`, `not_found`.
        """
        name = self._confirmed(token, confirmation, actor)

        def work(tx: Tx) -> None:
            row = passkeys_sql.get(tx, credential_id)
            if row is None or row.name != name:
                raise ApiError(errors_pb2.ERROR_REASON_NOT_FOUND, "You have no such passkey.")
            passkeys_sql.remove(tx, credential_id)
            if passkeys_sql.count(tx, name) == 0:
                passkeys_sql.remove_codes(tx, name)
            self._record(tx, actor, "user.passkey_removed", name, {"passkey": row.label, "host": row.rp_id})

        self._services.database.write(work, lock_key=sql.LOCK_KEY)

    def new_codes(self, token: str, confirmation: Confirmation, actor: str) -> list[str]:
        """Returns new recovery codes, in place of the former codes.

        Raises:
            ApiError: `unauthorized`, `invalid_request`, `rate_limited`.
        """
        name, codes = self._confirmed(token, confirmation, actor), rules.new_codes()

        def work(tx: Tx) -> None:
            if passkeys_sql.count(tx, name) == 0:
                raise invalid("token", "must be of somebody with a passkey: codes stand in for one")
            self._replace_codes(tx, name, codes, self._services.clock())
            self._record(tx, actor, "user.recovery_codes_made", name, {})

        self._services.database.write(work, lock_key=sql.LOCK_KEY)
        return codes

    def _ask(self, token: str, name: str, purpose: Purpose) -> tuple[str, list[PasskeyRow]]:
        return self._services.database.write(
            lambda tx: (self._challenges.issue(tx, token, name, purpose), passkeys_sql.of_person(tx, name)),
            lock_key=sql.LOCK_KEY,
        )

    def _take(self, token: str, purpose: Purpose) -> ChallengeRow:
        """Returns and removes the challenge, which is good for one answer."""

        def work(tx: Tx) -> ChallengeRow:
            asked = self._challenges.find(tx, token, purpose)
            self._challenges.take(tx, asked)
            return asked

        return self._services.database.write(work, lock_key=sql.LOCK_KEY)

    def _confirmed(self, token: str, confirmation: Confirmation, actor: str) -> str:
        """Verifies the confirmation of a change, which counts as a try to sign in; returns the name of the person."""
        session, address = self._sign_ins.session(token), confirmation.address
        if confirmation.answer is None:
            verified = self._verifier.verify(session.name, confirmation.password, actor, address)
            if verified is None:
                raise invalid("password", "must be your password")
        else:
            self._verify_passkey(token, session.name, confirmation.answer, address)
        self._services.database.write(lambda tx: SignInTries.forget(tx, session.name, address), lock_key=sql.LOCK_KEY)
        return session.name

    def _verify_passkey(self, token: str, name: str, answer: ceremony.PasskeyResponse, address: str) -> None:
        limits = limits_of(name, address)
        self._services.database.write(lambda tx: self._tries.count(tx, limits), lock_key=sql.LOCK_KEY)
        asked = self._take(token, "confirm")
        credential_id = ceremony.credential_id_of(answer)
        passkey = self._services.database.read(lambda tx: passkeys_sql.get(tx, credential_id))
        if passkey is None:
            raise invalid("answer", _REFUSED)
        try:
            sign_count = ceremony.verified_sign_count(answer, asked.challenge, passkey, name)
        except ceremony.PasskeyError as error:
            _LOG.warning("A passkey of %s was refused: %s", name, error)
            raise invalid("answer", _REFUSED) from error
        now = self._services.clock()
        if not self._services.database.write(
            lambda tx: passkeys_sql.use(tx, passkey, sign_count=sign_count, now=now), lock_key=sql.LOCK_KEY
        ):
            raise invalid("answer", _REFUSED)

    def _replace_codes(self, tx: Tx, name: str, codes: list[str], now: int) -> None:
        passkeys_sql.replace_codes(tx, name, [rules.digest_of(code) for code in codes], now)

    def _record(self, tx: Tx, actor: str, action: str, name: str, details: dict[str, object]) -> None:
        audit.record(tx, at=self._services.clock(), actor=actor, action=action, target=name, details=details)


def _too_many() -> ApiError:
    most = passkeys_sql.MOST_PASSKEYS
    return invalid("token", f"must be of somebody with fewer than {most} passkeys: remove one")
