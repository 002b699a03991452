"""SQL of passkeys, of challenges to browsers, and of recovery codes."""

from typing import Final

from sqlalchemy import bindparam, delete, func, insert, select, update

from backend.storage.database import Tx
from backend.storage.statements import Command, Query, ScalarQuery, select_row
from backend.storage.tables.users import ChallengeRow, PasskeyRow, passkey_challenges, passkeys, recovery_codes

_GET = Query(PasskeyRow, select_row(PasskeyRow, passkeys).where(passkeys.c.credential_id == bindparam("credential_id")))
_OF_PERSON = Query(
    PasskeyRow,
    select_row(PasskeyRow, passkeys)
    .where(passkeys.c.name == bindparam("name"))
    .order_by(passkeys.c.created_at, passkeys.c.credential_id),
)
_COUNT = ScalarQuery[int](select(func.count()).select_from(passkeys).where(passkeys.c.name == bindparam("name")))
_INSERT = Command(insert(passkeys), [column.name for column in passkeys.columns])
_USE = Command(
    update(passkeys)
    .where(passkeys.c.credential_id == bindparam("of_credential_id"), passkeys.c.sign_count == bindparam("before"))
    .values(sign_count=bindparam("new_sign_count"), used_at=bindparam("new_used_at"))
)
_REMOVE = Command(delete(passkeys).where(passkeys.c.credential_id == bindparam("credential_id")))
_REMOVE_OF_PERSON = Command(delete(passkeys).where(passkeys.c.name == bindparam("name")))

_CHALLENGE = Query(
    ChallengeRow,
    select_row(ChallengeRow, passkey_challenges).where(passkey_challenges.c.token_sha256 == bindparam("token_sha256")),
)
_ADD_CHALLENGE = Command(insert(passkey_challenges), [column.name for column in passkey_challenges.columns])
_REPLACE_CHALLENGE = Command(
    update(passkey_challenges)
    .where(passkey_challenges.c.token_sha256 == bindparam("of_token_sha256"))
    .values(challenge=bindparam("new_challenge"))
)
_REMOVE_CHALLENGE = Command(
    delete(passkey_challenges).where(passkey_challenges.c.token_sha256 == bindparam("token_sha256"))
)
_REMOVE_CHALLENGES_OF_PERSON = Command(delete(passkey_challenges).where(passkey_challenges.c.name == bindparam("name")))
_REMOVE_OLD_CHALLENGES = Command(
    delete(passkey_challenges).where(passkey_challenges.c.created_at < bindparam("before"))
)

_COUNT_CODES = ScalarQuery[int](
    select(func.count()).select_from(recovery_codes).where(recovery_codes.c.name == bindparam("name"))
)
_INSERT_CODE = Command(insert(recovery_codes), [column.name for column in recovery_codes.columns])
_USE_CODE = Command(
    delete(recovery_codes).where(
        recovery_codes.c.name == bindparam("name"), recovery_codes.c.code_sha256 == bindparam("code_sha256")
    )
)
_REMOVE_CODES = Command(delete(recovery_codes).where(recovery_codes.c.name == bindparam("name")))

MOST_PASSKEYS: Final = 10
"""Most passkeys of a person."""


def get(tx: Tx, credential_id: str) -> PasskeyRow | None:
    """Returns a passkey, or None."""
    return tx.first(_GET, credential_id=credential_id)


def of_person(tx: Tx, name: str) -> list[PasskeyRow]:
    """Returns the passkeys of a person, oldest first."""
    return tx.all(_OF_PERSON, name=name)


def count(tx: Tx, name: str) -> int:
    """Returns the number of a person's passkeys."""
    return tx.scalar_one(_COUNT, name=name)


def add(tx: Tx, row: PasskeyRow) -> None:
    """Writes a new passkey."""
    tx.enqueue(_INSERT, **row._asdict())


def use(tx: Tx, row: PasskeyRow, *, sign_count: int, now: int) -> bool:
    """Writes the use of a passkey that was read as `row`; returns False if another use came between."""
    return bool(
        tx.run(
            _USE,
            of_credential_id=row.credential_id,
            before=row.sign_count,
            new_sign_count=sign_count,
            new_used_at=now,
        )
    )


def remove(tx: Tx, credential_id: str) -> None:
    """Removes a passkey."""
    tx.enqueue(_REMOVE, credential_id=credential_id)


def remove_all(tx: Tx, name: str) -> None:
    """Removes every passkey, recovery code and challenge of a person."""
    for command in (_REMOVE_OF_PERSON, _REMOVE_CODES, _REMOVE_CHALLENGES_OF_PERSON):
        tx.enqueue(command, name=name)


def challenge(tx: Tx, token_sha256: str) -> ChallengeRow | None:
    """Returns the challenge under a token, or None."""
    return tx.first(_CHALLENGE, token_sha256=token_sha256)


def add_challenge(tx: Tx, row: ChallengeRow) -> None:
    """Writes the challenge under a token, in place of an earlier one."""
    tx.enqueue(_REMOVE_CHALLENGE, token_sha256=row.token_sha256)
    tx.enqueue(_ADD_CHALLENGE, **row._asdict())


def replace_challenge(tx: Tx, token_sha256: str, challenge: str | None) -> None:
    """Replaces the challenge under a token, and keeps its time of creation; None marks it as answered."""
    tx.enqueue(_REPLACE_CHALLENGE, of_token_sha256=token_sha256, new_challenge=challenge)


def remove_challenge(tx: Tx, token_sha256: str) -> None:
    """Removes the challenge under a token."""
    tx.enqueue(_REMOVE_CHALLENGE, token_sha256=token_sha256)


def remove_challenges_of_person(tx: Tx, name: str) -> None:
    """Removes all challenges of a person."""
    tx.enqueue(_REMOVE_CHALLENGES_OF_PERSON, name=name)


def remove_old_challenges(tx: Tx, before: int) -> None:
    """Removes challenges older than a time."""
    tx.enqueue(_REMOVE_OLD_CHALLENGES, before=before)


def count_codes(tx: Tx, name: str) -> int:
    """Returns the number of a person's recovery codes."""
    return tx.scalar_one(_COUNT_CODES, name=name)


def replace_codes(tx: Tx, name: str, digests: list[str], now: int) -> None:
    """Writes the recovery codes of a person in place of the former codes."""
    remove_codes(tx, name)
    tx.many(_INSERT_CODE, [{"name": name, "code_sha256": digest, "created_at": now} for digest in digests])


def use_code(tx: Tx, name: str, digest: str) -> bool:
    """Removes a recovery code; returns whether there was one."""
    return bool(tx.run(_USE_CODE, name=name, code_sha256=digest))


def remove_codes(tx: Tx, name: str) -> None:
    """Removes the recovery codes of a person."""
    tx.enqueue(_REMOVE_CODES, name=name)
