"""SessionsService over gRPC."""

import grpc

from backend.errors import ApiError
from backend.rpc.interceptors import caller_of
from backend.users.messages import session_message, user_message
from backend.users.oidc.sign_in import Answer, ProviderSignIns
from backend.users.rules import SESSION_MS
from backend.users.sign_in import NewSession, SignIns
from contract.times import to_timestamp
from workflow_api.v1 import errors_pb2, sessions_pb2, sessions_pb2_grpc, users_pb2


class SessionsServicer(sessions_pb2_grpc.SessionsServiceServicer):
    """Signs people in and out for the console."""

    def __init__(self, sign_ins: SignIns, provider: ProviderSignIns | None = None) -> None:
        self._sign_ins = sign_ins
        self._provider = provider

    def SignIn(self, request: sessions_pb2.SignInRequest, context: grpc.ServicerContext) -> sessions_pb2.Session:
        """Begins a session."""
        name, actor = request.name.strip().lower(), caller_of(context).audit_name
        return self._opened(self._sign_ins.sign_in(name, request.password, request.address, actor))

    def GetSignInOptions(
        self, request: sessions_pb2.GetSignInOptionsRequest, context: grpc.ServicerContext
    ) -> sessions_pb2.SignInOptions:
        """Returns how people may sign in beside passwords."""
        return sessions_pb2.SignInOptions(provider_label=None if self._provider is None else self._provider.label)

    def BeginProviderSignIn(
        self, request: sessions_pb2.BeginProviderSignInRequest, context: grpc.ServicerContext
    ) -> sessions_pb2.ProviderSignIn:
        """Begins a sign-in with the identity provider."""
        url, attempt = self._configured().begin(request.redirect_uri)
        return sessions_pb2.ProviderSignIn(authorization_url=url, attempt=attempt)

    def FinishProviderSignIn(
        self, request: sessions_pb2.FinishProviderSignInRequest, context: grpc.ServicerContext
    ) -> sessions_pb2.Session:
        """Begins a session of whom the identity provider names."""
        issuer = request.issuer if request.HasField("issuer") else None
        answer = Answer(request.redirect_uri, request.attempt, request.state, request.code, issuer, request.address)
        return self._opened(self._configured().finish(answer, caller_of(context).audit_name))

    def GetSession(
        self, request: sessions_pb2.GetSessionRequest, context: grpc.ServicerContext
    ) -> sessions_pb2.Session:
        """Returns whose session this is."""
        session = self._sign_ins.session(request.token)
        return sessions_pb2.Session(
            user=user_message(
                session,
                created_at=session.user_created_at,
                needs_passkey=self._sign_ins.needs_passkey(session),
            ),
            expires_at=to_timestamp(session.created_at + SESSION_MS),
        )

    def SignOut(
        self, request: sessions_pb2.SignOutRequest, context: grpc.ServicerContext
    ) -> sessions_pb2.SignOutResponse:
        """Ends a session."""
        ended = self._sign_ins.sign_out(request.token, caller_of(context).audit_name)
        url = None
        if ended is not None and self._provider is not None and request.redirect_uri:
            url = self._provider.sign_out_url(ended.issuer, request.redirect_uri, request.id_token)
        return sessions_pb2.SignOutResponse(provider_url=url)

    def ChangePassword(
        self, request: sessions_pb2.ChangePasswordRequest, context: grpc.ServicerContext
    ) -> users_pb2.User:
        """Changes a person's own password."""
        row = self._sign_ins.change_password(
            request.token, request.password, request.new_password, request.address, caller_of(context).audit_name
        )
        return user_message(row)

    def _opened(self, session: NewSession) -> sessions_pb2.Session:
        needs_passkey = not session.pending and self._sign_ins.needs_passkey(session.row)
        return session_message(session, needs_passkey=needs_passkey)

    def _configured(self) -> ProviderSignIns:
        if self._provider is None:
            raise ApiError(
                errors_pb2.ERROR_REASON_INVALID_REQUEST, "The settings of this deployment name no identity provider."
            )
        return self._provider
