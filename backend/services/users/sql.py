"""SQL of users and their sessions, and of the workflow that a requested object belongs to."""

from typing import Final, NamedTuple

from sqlalchemy import bindparam, delete, func, insert, literal_column, select, update

from backend.services.users import passkeys_sql
from backend.storage.database import Tx
from backend.storage.sql_expressions import Purge
from backend.storage.statements import Command, Query, ScalarQuery, select_row
from backend.storage.tables.runs import runs
from backend.storage.tables.segments import approvals
from backend.storage.tables.users import UserRow, sessions, users
from backend.storage.tables.workflows import workflows

LOCK_KEY: Final = "users"
"""Lock key of changes of users, of their sessions and of failed sign-ins."""

_COLUMNS = [column.name for column in users.columns]


class SessionRow(NamedTuple):
    """A session with the columns of its user."""

    token_sha256: str
    created_at: int
    used_at: int
    name: str
    role: str
    password_hash: str
    password_is_temporary: int
    user_created_at: int
    signed_in_at: int | None
    disabled_at: int | None
    workflow_ids: str | None
    issuer: str | None
    subject: str | None
    preferences: str | None
    views: str | None


_GET = Query(UserRow, select_row(UserRow, users).where(users.c.name == bindparam("name")))
_BY_IDENTITY = Query(
    UserRow,
    select_row(UserRow, users).where(users.c.issuer == bindparam("issuer"), users.c.subject == bindparam("subject")),
)
_BY_NAME = Query(
    UserRow,
    select_row(UserRow, users)
    .where(users.c.name > bindparam("after"))
    .order_by(users.c.name)
    .limit(bindparam("limit")),
)
_ENABLED = ScalarQuery[int](select(func.count()).select_from(users).where(users.c.disabled_at.is_(None)))
_OTHER_ADMINISTRATORS = ScalarQuery[int](
    select(func.count())
    .select_from(users)
    .where(
        users.c.role == literal_column("'administrator'"),
        users.c.disabled_at.is_(None),
        users.c.name != bindparam("but"),
    )
)
_INSERT = Command(insert(users), _COLUMNS)
_EDIT = Command(
    update(users)
    .where(users.c.name == bindparam("of_name"))
    .values({name: bindparam(f"new_{name}") for name in _COLUMNS if name != "name"})
)

_OPEN = Command(insert(sessions), [column.name for column in sessions.columns])
# The person's time of creation is not the session's.
_OF_PERSON = [column.label("user_created_at" if column.name == "created_at" else column.name) for column in users.c]
_SESSION = Query(
    SessionRow,
    select(sessions.c.token_sha256, sessions.c.created_at, sessions.c.used_at, *_OF_PERSON)
    .join(users, users.c.name == sessions.c.name)
    .where(sessions.c.token_sha256 == bindparam("token_sha256")),
)
_USE = Command(
    update(sessions)
    .where(sessions.c.token_sha256 == bindparam("of_token_sha256"))
    .values(used_at=bindparam("new_used_at"))
)
_END = Command(delete(sessions).where(sessions.c.token_sha256 == bindparam("token_sha256")))
_END_OTHERS = Command(
    delete(sessions).where(sessions.c.name == bindparam("of_name"), sessions.c.token_sha256 != bindparam("kept"))
)
_LATEST = (
    select(sessions.c.token_sha256)
    .where(sessions.c.name == bindparam("name"))
    .order_by(sessions.c.created_at.desc(), sessions.c.token_sha256)
    .limit(bindparam("most"))
)
_END_OLDER = Command(
    delete(sessions).where(sessions.c.name == bindparam("of_name"), sessions.c.token_sha256.not_in(_LATEST))
)

purge_sessions = Purge(sessions, sessions.c.created_at)


def get(tx: Tx, name: str) -> UserRow | None:
    """Returns a person, or None."""
    return tx.first(_GET, name=name)


def get_existing(tx: Tx, name: str) -> UserRow:
    """Returns a person who was added before."""
    return tx.one(_GET, name=name)


def by_identity(tx: Tx, issuer: str, subject: str) -> UserRow | None:
    """Returns the person of an identity at a provider, or None."""
    return tx.first(_BY_IDENTITY, issuer=issuer, subject=subject)


def users_after(tx: Tx, *, after: str, limit: int) -> list[UserRow]:
    """Returns users by name from after a name, disabled users included."""
    return tx.all(_BY_NAME, after=after, limit=limit)


def count_enabled(tx: Tx) -> int:
    """Returns the number of enabled people."""
    return tx.scalar_one(_ENABLED)


def count_other_administrators(tx: Tx, name: str) -> int:
    """Returns the number of enabled administrators besides a person."""
    return tx.scalar_one(_OTHER_ADMINISTRATORS, but=name)


def add(tx: Tx, columns: dict[str, object]) -> None:
    """Writes a new person."""
    tx.enqueue(
        _INSERT,
        **{"workflow_ids": None, "issuer": None, "subject": None, "preferences": None, "views": None, **columns},
    )


def edit(tx: Tx, row: UserRow, changes: dict[str, object]) -> None:
    """Writes the changed columns of a person who was read as `row` in the same transaction."""
    values = {f"new_{name}": value for name, value in (row._asdict() | changes).items() if name != "name"}
    tx.enqueue(_EDIT, of_name=row.name, **values)


def open_session(tx: Tx, *, token_sha256: str, name: str, now: int, most: int) -> None:
    """Writes a session, and removes the person's oldest sessions above `most`."""
    tx.enqueue(_OPEN, token_sha256=token_sha256, name=name, created_at=now, used_at=now)
    tx.enqueue(_END_OLDER, of_name=name, name=name, most=most)


def session(tx: Tx, token_sha256: str) -> SessionRow | None:
    """Returns a session with the columns of its person, or None."""
    return tx.first(_SESSION, token_sha256=token_sha256)


def use_session(tx: Tx, token_sha256: str, now: int) -> None:
    """Writes the time of a session's last use."""
    tx.enqueue(_USE, of_token_sha256=token_sha256, new_used_at=now)


def end_session(tx: Tx, token_sha256: str) -> None:
    """Removes a session."""
    tx.enqueue(_END, token_sha256=token_sha256)


def end_sessions(tx: Tx, name: str, *, excluded: str = "") -> None:
    """Removes every session and pending sign-in of a person, except the session of digest `excluded`."""
    tx.enqueue(_END_OTHERS, of_name=name, kept=excluded)
    passkeys_sql.remove_challenges_of_person(tx, name)


_OF_RUN: Final[ScalarQuery[str]] = ScalarQuery(
    select(runs.c.workflow_id).where(runs.c.run_id == bindparam("of_run_id"))
)
_OF_APPROVAL: Final[ScalarQuery[str]] = ScalarQuery(
    select(runs.c.workflow_id)
    .select_from(approvals)
    .join(runs, runs.c.run_id == approvals.c.run_id)
    .where(approvals.c.approval_id == bindparam("of_approval_id"))
)
_KNOWN: Final[ScalarQuery[str]] = ScalarQuery(
    select(workflows.c.workflow_id).where(
        workflows.c.workflow_id == bindparam("of_workflow_id"), workflows.c.deleted_at.is_(None)
    )
)


def workflow_of_run(tx: Tx, run_id: str) -> str | None:
    """Returns the workflow of a run; None if there is no such run."""
    return tx.scalar(_OF_RUN, of_run_id=run_id)


def workflow_of_approval(tx: Tx, approval_id: str) -> str | None:
    """Returns the workflow of an approval's run; None if there is no such approval."""
    return tx.scalar(_OF_APPROVAL, of_approval_id=approval_id)


def workflow_exists(tx: Tx, workflow_id: str) -> bool:
    """Returns whether a workflow that was not deleted has this id."""
    return tx.scalar(_KNOWN, of_workflow_id=workflow_id) is not None
