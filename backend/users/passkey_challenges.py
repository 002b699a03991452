"""What a browser is asked to sign: under a token, for one purpose, once, within five minutes."""

import secrets
from base64 import urlsafe_b64encode
from typing import Final, Literal

from backend.clock import Clock
from backend.errors import ApiError
from backend.storage.database import Tx
from backend.storage.tables.users import ChallengeRow
from backend.users import passkeys_sql, rules
from workflow_api.v1 import errors_pb2

LASTS_MS: Final = 5 * 60_000

Purpose = Literal["sign_in", "register", "confirm"]


class Challenges:
    """Issues, finds and takes challenges in the caller's transaction."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def issue(self, tx: Tx, token: str, name: str, purpose: Purpose) -> str:
        """Returns a new challenge for a person's browser, in place of the one before."""
        now = self._clock()
        passkeys_sql.forget_old(tx, now - LASTS_MS)
        challenge = urlsafe_b64encode(secrets.token_bytes(32)).decode().rstrip("=")
        passkeys_sql.add_challenge(tx, ChallengeRow(_key(token, purpose), name, purpose, challenge, now))
        return challenge

    def find(self, tx: Tx, token: str, purpose: Purpose) -> ChallengeRow:
        """Returns the challenge that was issued under a token.

        Raises:
            ApiError: `unauthorized`, none was, or too long ago.
        """
        row = passkeys_sql.challenge(tx, _key(token, purpose))
        if row is None or row.purpose != purpose or not 0 <= self._clock() - row.created_at < LASTS_MS:
            raise expired()
        return row

    def reissue(self, tx: Tx, row: ChallengeRow) -> str:
        """Returns another challenge under the same token, which does not last longer for that."""
        challenge = urlsafe_b64encode(secrets.token_bytes(32)).decode().rstrip("=")
        passkeys_sql.replace_challenge(tx, row.token_sha256, challenge)
        return challenge

    @staticmethod
    def take(tx: Tx, row: ChallengeRow) -> None:
        """Withdraws the challenge, whatever comes of the answer."""
        passkeys_sql.replace_challenge(tx, row.token_sha256, None)


def expired() -> ApiError:
    """Returns the refusal of an answer to what was not asked, or not any more."""
    return ApiError(errors_pb2.ERROR_REASON_UNAUTHORIZED, "This took too long, or was done already: begin again.")


def _key(token: str, purpose: Purpose) -> str:
    return rules.sha256_hex(f"{purpose} {token}")
