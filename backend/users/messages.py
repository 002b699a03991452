"""Rows of users as messages."""

from collections.abc import Mapping
from typing import Final

from backend.storage.tables.users import UserRow
from backend.users.rules import SESSION_MS
from backend.users.sign_in import NewSession
from backend.users.sql import SessionRow
from contract.times import to_timestamp
from workflow_api.v1 import sessions_pb2, users_pb2

ROLE_NAMES: Final[Mapping[int, str]] = {
    users_pb2.ROLE_ADMINISTRATOR: "administrator",
    users_pb2.ROLE_APPROVER: "approver",
}
"""Each role as it is stored."""

_ROLES: Final = {name: users_pb2.Role.ValueType(number) for number, name in ROLE_NAMES.items()}


def session_message(session: NewSession, *, needs_passkey: bool) -> sessions_pb2.Session:
    """Returns a new session with its token; of a pending one the token by which it goes on, and nothing else."""
    if session.pending:
        return sessions_pb2.Session(pending_token=session.token)
    return sessions_pb2.Session(
        token=session.token,
        user=user_message(session.row, needs_passkey=needs_passkey),
        expires_at=to_timestamp(session.began_at + SESSION_MS),
    )


def user_message(
    row: UserRow | SessionRow, *, created_at: int | None = None, passkeys: int = 0, needs_passkey: bool = False
) -> users_pb2.User:
    """Returns a user as a message; `created_at` replaces the row's own where that belongs to a session."""
    return users_pb2.User(
        name=row.name,
        role=_ROLES[row.role],
        disabled=row.disabled_at is not None,
        created_at=to_timestamp(row.created_at if created_at is None else created_at),
        signed_in_at=None if row.signed_in_at is None else to_timestamp(row.signed_in_at),
        password_is_temporary=bool(row.password_is_temporary),
        of_provider=row.issuer is not None,
        passkeys=passkeys,
        needs_passkey=needs_passkey,
    )
