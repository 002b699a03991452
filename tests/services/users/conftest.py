"""People at a real database, and what was audited of them."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from argon2 import PasswordHasher

from backend.services.audit import sql as audit_sql
from backend.services.dependencies import Services
from backend.services.users.passwords import Passwords
from backend.services.users.servicer import PasskeysServicer, SessionsServicer, UsersServicer
from backend.services.users.sign_in import SignIns
from tests.services.calls import Caller, RefusedError
from workflow_api.v1 import passkeys_pb2, sessions_pb2, users_pb2

USERS = users_pb2.DESCRIPTOR.services_by_name["UsersService"]
SESSIONS = sessions_pb2.DESCRIPTOR.services_by_name["SessionsService"]
PASSKEYS = passkeys_pb2.DESCRIPTOR.services_by_name["PasskeysService"]
LIMIT = 3
WRONG = "not-their-password"
ADDRESS = "203.0.113.7"


@dataclass(frozen=True)
class People:
    """The service with the calls that tests make often."""

    call: Caller
    services: Services

    def add(self, name: str = "ana", role: int = users_pb2.ROLE_ADMINISTRATOR) -> str:
        """Adds a person and returns the password."""
        request = users_pb2.CreateUserRequest(name=name, role=users_pb2.Role.ValueType(role))
        return str(self.call("CreateUser", request, actor="root").password)

    def users(self) -> dict[str, users_pb2.User]:
        """Everybody by name."""
        return {user.name: user for user in self.call("ListUsers", users_pb2.ListUsersRequest()).items}

    def disable(self, name: str = "ana") -> users_pb2.User:
        user: users_pb2.User = self.call("DisableUser", users_pb2.DisableUserRequest(name=name), actor="root")
        return user

    def reset(self, name: str = "ana") -> str:
        request = users_pb2.ResetUserPasswordRequest(name=name)
        return str(self.call("ResetUserPassword", request, actor="root").password)

    def sign_in(self, password: str, name: str = "ana", address: str = ADDRESS) -> sessions_pb2.Session:
        request = sessions_pb2.SignInRequest(name=name, password=password, address=address)
        session: sessions_pb2.Session = self.call("SignIn", request, actor="console")
        return session

    def session(self, token: str, *, automatic: bool = False) -> sessions_pb2.Session:
        request = sessions_pb2.GetSessionRequest(token=token, automatic=automatic)
        session: sessions_pb2.Session = self.call("GetSession", request)
        return session

    def prefer(self, token: str, preferences: users_pb2.Preferences) -> users_pb2.User:
        request = sessions_pb2.SetPreferencesRequest(token=token, preferences=preferences)
        user: users_pb2.User = self.call("SetPreferences", request, actor="console")
        return user

    def sign_out(self, token: str) -> None:
        self.call("SignOut", sessions_pb2.SignOutRequest(token=token), actor="console")

    def change(self, token: str, password: str, new: str) -> users_pb2.User:
        request = sessions_pb2.ChangePasswordRequest(token=token, password=password, new_password=new, address=ADDRESS)
        user: users_pb2.User = self.call("ChangePassword", request, actor="user:ana")
        return user

    def audited(self) -> list[tuple[str, str, str, dict[str, Any]]]:
        """(action, target, actor, details) of every audit record, oldest first."""
        newest = audit_sql.AuditPosition(2**62, "")
        rows, _ = self.services.database.read(
            lambda tx: audit_sql.trail(tx, audit_sql.Filters(), since=0, before=newest, limit=1000)
        )
        return [(row.action, row.target, row.actor, json.loads(row.details)) for row in reversed(rows)]

    def rows(self, table: str) -> list[Any]:
        """Every row of a table."""
        return self.services.database.read(
            lambda tx: list(tx.connection.execute(f"SELECT * FROM {table}", ()).fetchall())
        )


@pytest.fixture
def people(services: Services, monkeypatch: pytest.MonkeyPatch) -> People:
    """Their passwords are hashed the cheapest way; the cost in production is a rule of `tests/unit`."""
    monkeypatch.setattr("argon2.PasswordHasher", partial(PasswordHasher, time_cost=1, memory_cost=32))
    return people_of(services)


def people_of(services: Services, *, administrators_need_passkey: bool = False) -> People:
    """The services of people as one process has them."""
    passwords = Passwords()
    sign_ins = SignIns(services, passwords, administrators_need_passkey=administrators_need_passkey)
    others = (
        (SessionsServicer(services, sign_ins), SESSIONS),
        (PasskeysServicer(services, passwords, sign_ins), PASSKEYS),
    )
    return People(Caller(UsersServicer(services, passwords, LIMIT), USERS, *others), services)


def reason(call: Callable[..., Any], *arguments: Any) -> RefusedError:
    """How a call was refused."""
    with pytest.raises(RefusedError) as refused:
        call(*arguments)
    return refused.value
