"""UsersService over gRPC."""

import grpc

from backend.rpc.interceptors import caller_of
from backend.services import Services
from backend.users import sql
from backend.users.messages import user_message
from backend.users.passwords import Passwords
from backend.users.rules import SESSION_MS
from backend.users.service import UserAdministration
from backend.users.sign_in import SignIns
from workflow_api.v1 import users_pb2, users_pb2_grpc


class UsersServicer(users_pb2_grpc.UsersServiceServicer):
    """People, for administrators and for the console."""

    def __init__(self, services: Services, limit: int) -> None:
        passwords = Passwords()
        self._services = services
        self._administration = UserAdministration(services, passwords, limit)
        self._sign_ins = SignIns(services, passwords)

    def AddUser(self, request: users_pb2.AddUserRequest, context: grpc.ServicerContext) -> users_pb2.UserPassword:
        """Adds a person and shows their password once."""
        row, password = self._administration.add(request.name, request.role, caller_of(context).audit_name)
        return users_pb2.UserPassword(user=user_message(row), password=password)

    def ListUsers(
        self, request: users_pb2.ListUsersRequest, context: grpc.ServicerContext
    ) -> users_pb2.ListUsersResponse:
        """Everybody, by name."""
        rows = self._services.database.read(sql.everybody)
        return users_pb2.ListUsersResponse(items=[user_message(row) for row in rows])

    def DisableUser(self, request: users_pb2.DisableUserRequest, context: grpc.ServicerContext) -> users_pb2.User:
        """Has a person no longer sign in."""
        return user_message(self._administration.disable(request.name, caller_of(context).audit_name))

    def ResetPassword(
        self, request: users_pb2.ResetPasswordRequest, context: grpc.ServicerContext
    ) -> users_pb2.UserPassword:
        """Makes a new password and shows it once."""
        row, password = self._administration.reset_password(request.name, caller_of(context).audit_name)
        return users_pb2.UserPassword(user=user_message(row), password=password)

    def SignIn(self, request: users_pb2.SignInRequest, context: grpc.ServicerContext) -> users_pb2.Session:
        """Begins a session."""
        name, actor = request.name.strip().lower(), caller_of(context).audit_name
        opened = self._sign_ins.sign_in(name, request.password, request.address, actor)
        return users_pb2.Session(
            token=opened.token, user=user_message(opened.row), expires_at_ms=opened.began_at + SESSION_MS
        )

    def GetSession(self, request: users_pb2.GetSessionRequest, context: grpc.ServicerContext) -> users_pb2.Session:
        """Whose session this is."""
        session = self._sign_ins.session(request.token)
        return users_pb2.Session(
            user=user_message(session, created_at=session.user_created_at),
            expires_at_ms=session.created_at + SESSION_MS,
        )

    def SignOut(self, request: users_pb2.SignOutRequest, context: grpc.ServicerContext) -> users_pb2.SignOutResponse:
        """Ends a session."""
        self._sign_ins.sign_out(request.token, caller_of(context).audit_name)
        return users_pb2.SignOutResponse()

    def ChangePassword(self, request: users_pb2.ChangePasswordRequest, context: grpc.ServicerContext) -> users_pb2.User:
        """Changes a person's own password."""
        row = self._sign_ins.change_password(
            request.token, request.password, request.new_password, request.address, caller_of(context).audit_name
        )
        return user_message(row)
