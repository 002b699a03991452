"""UsersService over gRPC."""

import grpc

from backend.paging import Paging
from backend.rpc.interceptors import caller_of
from backend.services import Services
from backend.users import sql
from backend.users.messages import user_message
from backend.users.passwords import Passwords
from backend.users.permissions import permissions_of
from backend.users.service import UserAdministration
from workflow_api.v1 import users_pb2, users_pb2_grpc


class UsersServicer(users_pb2_grpc.UsersServiceServicer):
    """Administers people."""

    def __init__(self, services: Services, passwords: Passwords, limit: int) -> None:
        self._services = services
        self._administration = UserAdministration(services, passwords, limit)

    def CreateUser(self, request: users_pb2.CreateUserRequest, context: grpc.ServicerContext) -> users_pb2.UserPassword:
        """Adds a person and shows the password once."""
        row, password = self._administration.create(
            request.name, permissions_of(request), caller_of(context).audit_name
        )
        return users_pb2.UserPassword(user=user_message(row), password=password)

    def ListUsers(
        self, request: users_pb2.ListUsersRequest, context: grpc.ServicerContext
    ) -> users_pb2.ListUsersResponse:
        """Returns users by name, disabled ones included."""
        paging = Paging(self._services.cursors, request)
        (name,) = paging.after or ("",)
        rows = self._services.database.read(lambda tx: sql.by_name(tx, after=str(name), limit=paging.rows_to_read))
        shown, token = paging.cut(rows, lambda row: (row.name,))
        return users_pb2.ListUsersResponse(items=[user_message(row) for row in shown], next_page_token=token)

    def EnableUser(self, request: users_pb2.EnableUserRequest, context: grpc.ServicerContext) -> users_pb2.User:
        """Lets a disabled person of the identity provider sign in again."""
        return user_message(self._administration.enable(request.name, caller_of(context).audit_name))

    def DisableUser(self, request: users_pb2.DisableUserRequest, context: grpc.ServicerContext) -> users_pb2.User:
        """Ends a person's sessions and refuses further sign-ins."""
        return user_message(self._administration.disable(request.name, caller_of(context).audit_name))

    def SetUserRole(self, request: users_pb2.SetUserRoleRequest, context: grpc.ServicerContext) -> users_pb2.User:
        """Changes what a person may do."""
        may = permissions_of(request)
        return user_message(self._administration.set_role(request.name, may, caller_of(context).audit_name))

    def ResetUserPassword(
        self, request: users_pb2.ResetUserPasswordRequest, context: grpc.ServicerContext
    ) -> users_pb2.UserPassword:
        """Makes a new password and shows it once."""
        row, password = self._administration.reset_password(request.name, caller_of(context).audit_name)
        return users_pb2.UserPassword(user=user_message(row), password=password)
