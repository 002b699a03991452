"""SessionsService over gRPC."""

import grpc

from backend.rpc.interceptors import caller_of
from backend.services import Services
from backend.users.messages import user_message
from backend.users.passwords import Passwords
from backend.users.rules import SESSION_MS
from backend.users.sign_in import SignIns
from contract.times import to_timestamp
from workflow_api.v1 import sessions_pb2, sessions_pb2_grpc, users_pb2


class SessionsServicer(sessions_pb2_grpc.SessionsServiceServicer):
    """Signs people in and out for the console."""

    def __init__(self, services: Services, passwords: Passwords) -> None:
        self._sign_ins = SignIns(services, passwords)

    def SignIn(self, request: sessions_pb2.SignInRequest, context: grpc.ServicerContext) -> sessions_pb2.Session:
        """Begins a session."""
        name, actor = request.name.strip().lower(), caller_of(context).audit_name
        opened = self._sign_ins.sign_in(name, request.password, request.address, actor)
        return sessions_pb2.Session(
            token=opened.token, user=user_message(opened.row), expires_at=to_timestamp(opened.began_at + SESSION_MS)
        )

    def GetSession(
        self, request: sessions_pb2.GetSessionRequest, context: grpc.ServicerContext
    ) -> sessions_pb2.Session:
        """Returns whose session this is."""
        session = self._sign_ins.session(request.token)
        return sessions_pb2.Session(
            user=user_message(session, created_at=session.user_created_at),
            expires_at=to_timestamp(session.created_at + SESSION_MS),
        )

    def SignOut(
        self, request: sessions_pb2.SignOutRequest, context: grpc.ServicerContext
    ) -> sessions_pb2.SignOutResponse:
        """Ends a session."""
        self._sign_ins.sign_out(request.token, caller_of(context).audit_name)
        return sessions_pb2.SignOutResponse()

    def ChangePassword(
        self, request: sessions_pb2.ChangePasswordRequest, context: grpc.ServicerContext
    ) -> users_pb2.User:
        """Changes a person's own password."""
        row = self._sign_ins.change_password(
            request.token, request.password, request.new_password, request.address, caller_of(context).audit_name
        )
        return user_message(row)
