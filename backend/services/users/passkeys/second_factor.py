"""The second step of a sign-in whose password was right: a passkey, or a recovery code."""

import logging
from collections.abc import Callable
from typing import Final

from backend.common.errors import ApiError
from backend.services.audit import sql as audit
from backend.services.dependencies import Services
from backend.services.users import passkeys_sql, rules, sql
from backend.services.users.passkeys import ceremony
from backend.services.users.rules import digest_of
from backend.services.users.sign_in import Challenges, NewSession, expired
from backend.services.users.tries import SignInTries, limits_of
from backend.storage.database import Tx
from backend.storage.tables.users import ChallengeRow, PasskeyRow, UserRow
from workflow_api.v1 import errors_pb2

_LOG: Final = logging.getLogger(__name__)
_TRIES_OF_A_SIGN_IN: Final = 2


class SecondFactorSignIn:
    """Finishes sign-ins that `SignIns` left pending."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._challenges = Challenges(services.clock)
        self._tries = SignInTries(services.clock)

    def begin(self, token: str, host: str) -> tuple[str, list[str]]:
        """Returns the options by which a passkey signs in, as JSON, and the hosts at which the person has passkeys.

        Raises:
            ApiError: `unauthorized`, the password was given too long ago.
        """

        def work(tx: Tx) -> tuple[str, list[PasskeyRow]]:
            asked = self._challenges.find(tx, token, "sign_in")
            return self._challenges.reissue(tx, asked), passkeys_sql.of_person(tx, asked.name)

        challenge, known = self._services.database.write(work, lock_key=sql.LOCK_KEY)
        return ceremony.assertion_options(host, challenge, known), sorted({passkey.rp_id for passkey in known})

    def finish_with_passkey(self, token: str, answer: ceremony.PasskeyResponse, address: str, actor: str) -> NewSession:
        """Begins the session of the person who has the passkey.

        Raises:
            ApiError: `unauthorized`, `rate_limited`.
        """
        credential_id = ceremony.credential_id_of(answer)
        asked = self._services.database.write(lambda tx: self._try(tx, token, address), lock_key=sql.LOCK_KEY)
        passkey = self._services.database.read(lambda tx: passkeys_sql.get(tx, credential_id))
        if passkey is None:
            raise self._refused(asked.name, "passkey", address, actor)
        try:
            sign_count = ceremony.verified_sign_count(answer, asked.challenge, passkey, asked.name)
        except ceremony.PasskeyError as error:
            _LOG.warning("A passkey of %s was refused: %s", asked.name, error)
            raise self._refused(asked.name, "passkey", address, actor) from error

        def accept(tx: Tx, now: int) -> bool:
            return passkeys_sql.use(tx, passkey, sign_count=sign_count, now=now)

        return self._open(asked, accept, "passkey", address, actor)

    def finish_with_code(self, token: str, code: str, address: str, actor: str) -> NewSession:
        """Begins the session of the person who has a recovery code, and removes the code.

        Raises:
            ApiError: `unauthorized`, `rate_limited`.
        """
        asked = self._services.database.write(lambda tx: self._try(tx, token, address), lock_key=sql.LOCK_KEY)
        digest = digest_of(code)
        return self._open(
            asked, lambda tx, _: passkeys_sql.use_code(tx, asked.name, digest), "recovery code", address, actor
        )

    def _try(self, tx: Tx, token: str, address: str) -> ChallengeRow:
        """Counts a try, and takes the challenge, which is good for one try."""
        asked = self._challenges.find(tx, token, "sign_in")
        self._tries.count(tx, limits_of(asked.name, address))
        self._challenges.take(tx, asked)
        return asked

    def _open(
        self, asked: ChallengeRow, accept: Callable[[Tx, int], bool], factor: str, address: str, actor: str
    ) -> NewSession:
        token, now = rules.new_token(), self._services.clock()

        def work(tx: Tx) -> UserRow | None:
            row = sql.get(tx, asked.name)
            # The challenge is removed when the password is changed or the person disabled.
            if row is None or row.disabled_at is not None or passkeys_sql.challenge(tx, asked.token_sha256) is None:
                raise expired()
            if not accept(tx, now):
                return None
            passkeys_sql.remove_challenge(tx, asked.token_sha256)
            sql.edit(tx, row, {"signed_in_at": now})
            sql.open_session(tx, token_sha256=rules.sha256_hex(token), name=row.name, now=now, most=rules.MAX_SESSIONS)
            SignInTries.forget(tx, row.name, address, tries=_TRIES_OF_A_SIGN_IN)
            details = {"by": f"password and {factor}"} | ({"address": address} if address else {})
            audit.record(tx, at=now, actor=actor, action="user.signed_in", target=row.name, details=details)
            return sql.get_existing(tx, row.name)

        row = self._services.database.write(work, lock_key=sql.LOCK_KEY)
        if row is None:
            raise self._refused(asked.name, factor, address, actor)
        return NewSession(token, row, now)

    def _refused(self, name: str, factor: str, address: str, actor: str) -> ApiError:
        """Records a refusal in the audit trail, without a bound because tries are limited; returns the error."""
        details = {"by": factor} | ({"address": address} if address else {})
        now = self._services.clock()
        self._services.database.write(
            lambda tx: audit.record(
                tx, at=now, actor=actor, action="user.second_factor_refused", target=name, details=details
            ),
            lock_key=sql.LOCK_KEY,
        )
        return ApiError(errors_pb2.ERROR_REASON_UNAUTHORIZED, f"This {factor} was not accepted: try again.")
