"""Converts rows of users and sessions to messages."""

import json
from typing import Final

from backend.services.users.rules import SESSION_MS
from backend.services.users.sign_in import NewSession
from backend.services.users.sql import SessionRow
from backend.services.users.views import stored_views
from backend.storage.tables.users import UserRow
from contract.roles import ROLE_NAMES
from contract.times import to_timestamp
from workflow_api.v1 import sessions_pb2, users_pb2

_PREFERENCES: Final = tuple(users_pb2.Preferences.DESCRIPTOR.fields_by_name)
_ROLES: Final = {name: role for role, name in ROLE_NAMES.items()}


def role_of(row: UserRow | SessionRow) -> users_pb2.Role.ValueType:
    """Returns a user's role."""
    return _ROLES[row.role]


def chosen_workflows(row: UserRow | SessionRow) -> list[str] | None:
    """Returns the workflows that an approver decides for; None for all, and for other roles."""
    if row.role != ROLE_NAMES[users_pb2.ROLE_APPROVER] or row.workflow_ids is None:
        return None
    found: list[str] = json.loads(row.workflow_ids)
    return found


def session_message(session: NewSession, *, needs_passkey: bool) -> sessions_pb2.Session:
    """Returns a new session with its token; a pending session has only the token of the second step."""
    if session.pending:
        return sessions_pb2.Session(pending_token=session.token)
    return sessions_pb2.Session(
        token=session.token,
        user=user_message(session.row, needs_passkey=needs_passkey),
        expires_at=to_timestamp(session.began_at + SESSION_MS),
        id_token=session.id_token,
    )


def user_message(
    row: UserRow | SessionRow,
    *,
    created_at: int | None = None,
    passkeys: int = 0,
    needs_passkey: bool = False,
    with_views: bool = False,
) -> users_pb2.User:
    """Returns a user as a message; `created_at` replaces the row's, which in a session's row is the session's."""
    chosen = chosen_workflows(row)
    return users_pb2.User(
        name=row.name,
        role=role_of(row),
        disabled=row.disabled_at is not None,
        created_at=to_timestamp(row.created_at if created_at is None else created_at),
        signed_in_at=None if row.signed_in_at is None else to_timestamp(row.signed_in_at),
        password_is_temporary=bool(row.password_is_temporary),
        decides_for=None if chosen is None else users_pb2.ChosenWorkflows(workflow_ids=chosen),
        of_provider=row.issuer is not None,
        passkeys=passkeys,
        needs_passkey=needs_passkey,
        preferences=None if row.preferences is None else _preferences(row.preferences),
        views=[
            users_pb2.SavedView(name=name, address=address)
            for name, address in (stored_views(row.views) if with_views else {}).items()
        ],
    )


def preferences_text(preferences: users_pb2.Preferences) -> str:
    """Returns preferences as JSON, as they are stored."""
    return json.dumps({name: getattr(preferences, name) for name in _PREFERENCES})


def _preferences(stored: str) -> users_pb2.Preferences:
    # Another release may have stored more or less.
    found = json.loads(stored)
    return users_pb2.Preferences(**{name: found[name] for name in _PREFERENCES if name in found})
