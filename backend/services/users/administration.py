"""Administration of users: each change is one audited transaction."""

from collections.abc import Callable
from typing import Final

from backend.common.errors import ApiError, invalid, not_found_message
from backend.services.audit import sql as audit
from backend.services.dependencies import Services
from backend.services.users import passkeys_sql, sql
from backend.services.users.messages import role_of
from backend.services.users.passwords import Passwords, new_password
from backend.services.users.permissions import Permissions
from backend.storage.database import Tx
from backend.storage.tables.users import UserRow
from workflow_api.v1 import errors_pb2, users_pb2

_MOST_SUGGESTED: Final = 1_000


class UserAdministration:
    """Adds and disables people, and makes new passwords; `limit` is the most enabled people."""

    def __init__(self, services: Services, passwords: Passwords, limit: int) -> None:
        self._services = services
        self._passwords = passwords
        self._limit = limit

    def create(self, name: str, permissions: Permissions, actor: str) -> tuple[UserRow, str]:
        """Adds a user, or enables a disabled one again; returns the row and the password, which is not stored."""
        permissions.check()
        self._services.database.read(lambda tx: self._refuse_addition(tx, name))
        password, made = self._new_password()
        now = self._services.clock()

        def work(tx: Tx) -> UserRow:
            self._refuse_addition(tx, name)
            permissions.refuse_unknown(tx)
            before = sql.get(tx, name)
            if before is not None and before.issuer is not None:
                raise invalid("name", "must be of nobody who signs in with the identity provider: enable them again")
            changes = {**made, **permissions.columns(), "disabled_at": None}
            if before is None:
                sql.add(tx, {"name": name, "created_at": now, "signed_in_at": None, **changes})
            else:
                sql.edit(tx, before, changes)
                # Another person may use the name now.
                passkeys_sql.remove_all(tx, name)
            sql.end_sessions(tx, name)
            audit.record(tx, at=now, actor=actor, action="user.added", target=name, details=permissions.details())
            return _require_user(tx, name)

        return self._services.database.write(work, lock_key=sql.LOCK_KEY), password

    def set_role(self, name: str, permissions: Permissions, actor: str) -> UserRow:
        """Changes the permissions of a user from their next call on; equal permissions change nothing.

        Raises:
            ApiError: `not_found`; `invalid_request`, also for the last enabled administrator.
        """
        permissions.check()

        def work(tx: Tx) -> UserRow:
            row = _require_user(tx, name)
            _refuse_disabled(row)
            permissions.refuse_unknown(tx)
            columns = permissions.columns()
            if any(value != getattr(row, column) for column, value in columns.items()):
                if role_of(row) == users_pb2.ROLE_ADMINISTRATOR and not sql.count_other_administrators(tx, name):
                    raise invalid("role", "must be administrator for the last one: make somebody else one first")
                sql.edit(tx, row, columns)
                details = {"from": row.role, **permissions.details()}
                at = self._services.clock()
                audit.record(tx, at=at, actor=actor, action="user.role_changed", target=name, details=details)
            return _require_user(tx, name)

        return self._services.database.write(work, lock_key=sql.LOCK_KEY)

    def enable(self, name: str, actor: str) -> UserRow:
        """Lets a disabled person of the identity provider sign in again; an enabled person is not changed."""

        def work(tx: Tx) -> UserRow:
            row = _require_user(tx, name)
            if row.issuer is None:
                raise invalid("name", "must be of somebody who signs in with the identity provider: add them again")
            if row.disabled_at is not None:
                self._refuse_addition(tx, name)
                sql.edit(tx, row, {"disabled_at": None})
                audit.record(tx, at=self._services.clock(), actor=actor, action="user.enabled", target=name)
            return _require_user(tx, name)

        return self._services.database.write(work, lock_key=sql.LOCK_KEY)

    def disable(self, name: str, actor: str) -> UserRow:
        """Disables a user and ends their sessions; disabling again changes nothing."""

        def change(row: UserRow) -> dict[str, object]:
            return {} if row.disabled_at is not None else {"disabled_at": self._services.clock()}

        return self._change(name, actor, "user.disabled", change)

    def remove_passkeys(self, name: str, actor: str) -> UserRow:
        """Removes a user's passkeys and recovery codes, and ends their sessions; does nothing if there are none."""

        def work(tx: Tx) -> UserRow:
            row, passkeys = _require_user(tx, name), passkeys_sql.count(tx, name)
            if passkeys:
                passkeys_sql.remove_all(tx, name)
                sql.end_sessions(tx, name)
                details = {"passkeys": passkeys}
                audit.record(
                    tx,
                    at=self._services.clock(),
                    actor=actor,
                    action="user.passkeys_reset",
                    target=name,
                    details=details,
                )
            return row

        return self._services.database.write(work, lock_key=sql.LOCK_KEY)

    def reset_password(self, name: str, actor: str) -> tuple[UserRow, str]:
        """Sets a new password and ends the user's sessions; returns the row and the password."""
        _refuse_reset(self._services.database.read(lambda tx: _require_user(tx, name)))
        password, made = self._new_password()

        def change(row: UserRow) -> dict[str, object]:
            _refuse_reset(row)
            return made

        return self._change(name, actor, "user.password_reset", change), password

    def _new_password(self) -> tuple[str, dict[str, object]]:
        """Returns a new password, and the columns to store."""
        password = new_password()
        with self._passwords.slot_of_authenticated():
            return password, {"password_hash": self._passwords.hash(password), "password_is_temporary": 1}

    def _change(self, name: str, actor: str, action: str, change: Callable[[UserRow], dict[str, object]]) -> UserRow:
        def work(tx: Tx) -> UserRow:
            row = _require_user(tx, name)
            changes = change(row)
            if changes:
                sql.edit(tx, row, changes)
                sql.end_sessions(tx, name)
                audit.record(tx, at=self._services.clock(), actor=actor, action=action, target=name)
            return _require_user(tx, name)

        return self._services.database.write(work, lock_key=sql.LOCK_KEY)

    def _refuse_addition(self, tx: Tx, name: str) -> None:
        row = sql.get(tx, name)
        if row is not None and row.disabled_at is None:
            raise invalid("name", "must be of nobody who is enabled: reset the password, or disable them first")
        if sql.count_enabled(tx) >= self._limit:
            raise invalid(
                "name",
                f"must be one of at most {self._limit} who are enabled: disable somebody, or raise backend.users_limit",
            )


def _require_user(tx: Tx, name: str) -> UserRow:
    row = sql.get(tx, name)
    if row is None:
        known = sql.users_after(tx, after="", limit=_MOST_SUGGESTED)
        raise ApiError(
            errors_pb2.ERROR_REASON_NOT_FOUND, not_found_message("user", name, (user.name for user in known))
        )
    return row


def _refuse_disabled(row: UserRow) -> None:
    if row.disabled_at is not None:
        raise invalid("name", "must be of somebody who is enabled: add them again")


def _refuse_reset(row: UserRow) -> None:
    if row.issuer is not None:
        raise invalid("name", "must be of somebody with a password: this person signs in with the identity provider")
    _refuse_disabled(row)
