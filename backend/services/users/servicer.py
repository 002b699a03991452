"""UsersService, SessionsService and PasskeysService over gRPC: people, their sign-in and their passkeys."""

from zoneinfo import available_timezones

import grpc

from backend.common.errors import ApiError, invalid
from backend.common.paging import Paging
from backend.rpc.callers import principal_of
from backend.services.dependencies import Services
from backend.services.users import passkeys_sql, sql
from backend.services.users.administration import UserAdministration
from backend.services.users.messages import preferences_text, session_message, user_message
from backend.services.users.oidc.sign_in import AuthorizationResponse, ProviderSignIns
from backend.services.users.passkeys.ceremony import PasskeyResponse
from backend.services.users.passkeys.management import Confirmation, PasskeyManagement
from backend.services.users.passkeys.second_factor import SecondFactorSignIn
from backend.services.users.passwords import Passwords
from backend.services.users.permissions import permissions_of
from backend.services.users.rules import SESSION_MS
from backend.services.users.sign_in import NewSession, SignIns
from backend.services.users.views import SavedViews
from backend.storage.tables.users import PasskeyRow
from contract.times import to_timestamp
from workflow_api.v1 import (
    errors_pb2,
    passkeys_pb2,
    passkeys_pb2_grpc,
    sessions_pb2,
    sessions_pb2_grpc,
    users_pb2,
    users_pb2_grpc,
)


class UsersServicer(users_pb2_grpc.UsersServiceServicer):
    """Administers people."""

    def __init__(self, services: Services, passwords: Passwords, limit: int) -> None:
        self._services = services
        self._administration = UserAdministration(services, passwords, limit)

    def CreateUser(self, request: users_pb2.CreateUserRequest, context: grpc.ServicerContext) -> users_pb2.UserPassword:
        """Adds a person and shows the password once."""
        row, password = self._administration.create(
            request.name, permissions_of(request), principal_of(context).audit_name
        )
        return users_pb2.UserPassword(user=user_message(row), password=password)

    def ListUsers(
        self, request: users_pb2.ListUsersRequest, context: grpc.ServicerContext
    ) -> users_pb2.ListUsersResponse:
        """Returns users by name, disabled ones included."""
        paging = Paging(self._services.cursors, request)
        (name,) = paging.after or ("",)
        rows = self._services.database.read(lambda tx: sql.users_after(tx, after=str(name), limit=paging.rows_to_read))
        shown, token = paging.cut(rows, lambda row: (row.name,))
        passkeys = self._services.database.read(
            lambda tx: {row.name: passkeys_sql.count(tx, row.name) for row in shown}
        )
        items = [user_message(row, passkeys=passkeys[row.name]) for row in shown]
        return users_pb2.ListUsersResponse(items=items, next_page_token=token)

    def EnableUser(self, request: users_pb2.EnableUserRequest, context: grpc.ServicerContext) -> users_pb2.User:
        """Lets a disabled person of the identity provider sign in again."""
        return user_message(self._administration.enable(request.name, principal_of(context).audit_name))

    def DisableUser(self, request: users_pb2.DisableUserRequest, context: grpc.ServicerContext) -> users_pb2.User:
        """Ends a person's sessions and refuses further sign-ins."""
        return user_message(self._administration.disable(request.name, principal_of(context).audit_name))

    def SetUserRole(self, request: users_pb2.SetUserRoleRequest, context: grpc.ServicerContext) -> users_pb2.User:
        """Changes the role and workflows of a person."""
        permissions = permissions_of(request)
        return user_message(self._administration.set_role(request.name, permissions, principal_of(context).audit_name))

    def RemoveUserPasskeys(
        self, request: users_pb2.RemoveUserPasskeysRequest, context: grpc.ServicerContext
    ) -> users_pb2.User:
        """Removes the passkeys of a person who has lost them."""
        return user_message(self._administration.remove_passkeys(request.name, principal_of(context).audit_name))

    def ResetUserPassword(
        self, request: users_pb2.ResetUserPasswordRequest, context: grpc.ServicerContext
    ) -> users_pb2.UserPassword:
        """Makes a new password and shows it once."""
        row, password = self._administration.reset_password(request.name, principal_of(context).audit_name)
        return users_pb2.UserPassword(user=user_message(row), password=password)


class SessionsServicer(sessions_pb2_grpc.SessionsServiceServicer):
    """Signs people in and out for the console."""

    def __init__(self, services: Services, sign_ins: SignIns, provider: ProviderSignIns | None = None) -> None:
        self._sign_ins = sign_ins
        self._provider = provider
        self._views = SavedViews(services, sign_ins)

    def SignIn(self, request: sessions_pb2.SignInRequest, context: grpc.ServicerContext) -> sessions_pb2.Session:
        """Begins a session."""
        name, actor = request.name.strip().lower(), principal_of(context).audit_name
        return self._session_message(self._sign_ins.sign_in(name, request.password, request.address, actor))

    def GetSignInOptions(
        self, request: sessions_pb2.GetSignInOptionsRequest, context: grpc.ServicerContext
    ) -> sessions_pb2.SignInOptions:
        """Returns the ways to sign in besides passwords."""
        return sessions_pb2.SignInOptions(provider_label=None if self._provider is None else self._provider.label)

    def BeginProviderSignIn(
        self, request: sessions_pb2.BeginProviderSignInRequest, context: grpc.ServicerContext
    ) -> sessions_pb2.ProviderSignIn:
        """Begins a sign-in with the identity provider."""
        url, attempt = self._require_provider().begin(request.redirect_uri)
        return sessions_pb2.ProviderSignIn(authorization_url=url, attempt=attempt)

    def FinishProviderSignIn(
        self, request: sessions_pb2.FinishProviderSignInRequest, context: grpc.ServicerContext
    ) -> sessions_pb2.Session:
        """Begins a session of the person whom the identity provider names."""
        issuer = request.issuer if request.HasField("issuer") else None
        answer = AuthorizationResponse(
            request.redirect_uri, request.attempt, request.state, request.code, issuer, request.address
        )
        return self._session_message(self._require_provider().finish(answer, principal_of(context).audit_name))

    def GetSession(
        self, request: sessions_pb2.GetSessionRequest, context: grpc.ServicerContext
    ) -> sessions_pb2.Session:
        """Returns the session of a token, with its person."""
        session = self._sign_ins.session(request.token, used=not request.automatic)
        return sessions_pb2.Session(
            user=user_message(
                session,
                created_at=session.user_created_at,
                needs_passkey=self._sign_ins.needs_passkey(session),
                with_views=True,
            ),
            expires_at=to_timestamp(session.created_at + SESSION_MS),
        )

    def SignOut(
        self, request: sessions_pb2.SignOutRequest, context: grpc.ServicerContext
    ) -> sessions_pb2.SignOutResponse:
        """Ends a session."""
        ended = self._sign_ins.sign_out(request.token, principal_of(context).audit_name)
        url = None
        if ended is not None and self._provider is not None and request.redirect_uri:
            url = self._provider.sign_out_url(ended.issuer, request.redirect_uri, request.id_token)
        return sessions_pb2.SignOutResponse(provider_url=url)

    def SetPreferences(
        self, request: sessions_pb2.SetPreferencesRequest, context: grpc.ServicerContext
    ) -> users_pb2.User:
        """Stores how pages are shown to a person."""
        zone = request.preferences.time_zone
        if zone and zone not in available_timezones():
            raise invalid("preferences.time_zone", "must be a zone of the time zone database, such as Europe/Berlin")
        return user_message(self._sign_ins.set_preferences(request.token, preferences_text(request.preferences)))

    def SaveView(self, request: sessions_pb2.SaveViewRequest, context: grpc.ServicerContext) -> users_pb2.User:
        """Adds a view to those of a person."""
        return user_message(self._views.add(request.token, request.view.name, request.view.address), with_views=True)

    def RenameView(self, request: sessions_pb2.RenameViewRequest, context: grpc.ServicerContext) -> users_pb2.User:
        """Renames a view of a person."""
        return user_message(self._views.rename(request.token, request.name, request.new_name), with_views=True)

    def RemoveView(self, request: sessions_pb2.RemoveViewRequest, context: grpc.ServicerContext) -> users_pb2.User:
        """Removes a view of a person."""
        return user_message(self._views.remove(request.token, request.name), with_views=True)

    def ChangePassword(
        self, request: sessions_pb2.ChangePasswordRequest, context: grpc.ServicerContext
    ) -> users_pb2.User:
        """Changes a person's own password."""
        row = self._sign_ins.change_password(
            request.token, request.password, request.new_password, request.address, principal_of(context).audit_name
        )
        return user_message(row)

    def _session_message(self, session: NewSession) -> sessions_pb2.Session:
        needs_passkey = not session.pending and self._sign_ins.needs_passkey(session.row)
        return session_message(session, needs_passkey=needs_passkey)

    def _require_provider(self) -> ProviderSignIns:
        if self._provider is None:
            raise ApiError(
                errors_pb2.ERROR_REASON_INVALID_REQUEST, "The settings of this deployment name no identity provider."
            )
        return self._provider


class PasskeysServicer(passkeys_pb2_grpc.PasskeysServiceServicer):
    """Passkeys of people, for the console."""

    def __init__(self, services: Services, passwords: Passwords, sign_ins: SignIns) -> None:
        self._sign_ins = sign_ins
        self._second_factor = SecondFactorSignIn(services)
        self._management = PasskeyManagement(services, passwords, sign_ins)

    def BeginPasskeySignIn(
        self, request: passkeys_pb2.BeginPasskeySignInRequest, context: grpc.ServicerContext
    ) -> passkeys_pb2.PasskeyOptions:
        """Returns the options by which a passkey finishes a sign-in."""
        options, hosts = self._second_factor.begin(request.pending_token, request.host)
        return passkeys_pb2.PasskeyOptions(options_json=options, hosts=hosts)

    def FinishPasskeySignIn(
        self, request: passkeys_pb2.FinishPasskeySignInRequest, context: grpc.ServicerContext
    ) -> sessions_pb2.Session:
        """Begins the session of a sign-in that a passkey or recovery code finishes."""
        token, address, actor = request.pending_token, request.address, principal_of(context).audit_name
        if request.HasField("answer"):
            session = self._second_factor.finish_with_passkey(token, _answer(request.answer), address, actor)
        elif request.recovery_code:
            session = self._second_factor.finish_with_code(token, request.recovery_code, address, actor)
        else:
            raise invalid("recovery_code", "must be given where no passkey answers")
        return session_message(session, needs_passkey=self._sign_ins.needs_passkey(session.row))

    def GetPasskeys(
        self, request: passkeys_pb2.GetPasskeysRequest, context: grpc.ServicerContext
    ) -> passkeys_pb2.PasskeysOfPerson:
        """Returns the passkeys of a session's person."""
        rows, codes, required = self._management.listed(request.token)
        return passkeys_pb2.PasskeysOfPerson(
            passkeys=[_passkey(row) for row in rows], recovery_codes=codes, required=required
        )

    def BeginPasskeyRegistration(
        self, request: passkeys_pb2.BeginPasskeyRegistrationRequest, context: grpc.ServicerContext
    ) -> passkeys_pb2.PasskeyOptions:
        """Returns the options by which the browser makes a passkey."""
        return passkeys_pb2.PasskeyOptions(
            options_json=self._management.begin_registration(request.token, request.host)
        )

    def FinishPasskeyRegistration(
        self, request: passkeys_pb2.FinishPasskeyRegistrationRequest, context: grpc.ServicerContext
    ) -> passkeys_pb2.PasskeyRegistration:
        """Adds a passkey."""
        actor = principal_of(context).audit_name
        row, codes = self._management.register(request.token, request.label, _answer(request.answer), actor)
        return passkeys_pb2.PasskeyRegistration(passkey=_passkey(row), recovery_codes=codes)

    def BeginPasskeyConfirmation(
        self, request: passkeys_pb2.BeginPasskeyConfirmationRequest, context: grpc.ServicerContext
    ) -> passkeys_pb2.PasskeyOptions:
        """Returns the options by which a passkey confirms a change."""
        return passkeys_pb2.PasskeyOptions(
            options_json=self._management.begin_confirmation(request.token, request.host)
        )

    def RemovePasskey(
        self, request: passkeys_pb2.RemovePasskeyRequest, context: grpc.ServicerContext
    ) -> passkeys_pb2.RemovePasskeyResponse:
        """Removes a passkey."""
        actor = principal_of(context).audit_name
        self._management.remove(request.token, request.credential_id, _confirmation(request), actor)
        return passkeys_pb2.RemovePasskeyResponse()

    def ReplaceRecoveryCodes(
        self, request: passkeys_pb2.ReplaceRecoveryCodesRequest, context: grpc.ServicerContext
    ) -> passkeys_pb2.RecoveryCodes:
        """Makes new recovery codes."""
        actor = principal_of(context).audit_name
        return passkeys_pb2.RecoveryCodes(
            codes=self._management.new_codes(request.token, _confirmation(request), actor)
        )


def _answer(given: passkeys_pb2.PasskeyAnswer) -> PasskeyResponse:
    return PasskeyResponse(given.response_json, given.origin, given.host)


def _confirmation(
    request: passkeys_pb2.RemovePasskeyRequest | passkeys_pb2.ReplaceRecoveryCodesRequest,
) -> Confirmation:
    answer = _answer(request.answer) if request.HasField("answer") else None
    return Confirmation(request.password, answer, request.address)


def _passkey(row: PasskeyRow) -> passkeys_pb2.Passkey:
    return passkeys_pb2.Passkey(
        credential_id=row.credential_id,
        label=row.label,
        host=row.rp_id,
        created_at=to_timestamp(row.created_at),
        used_at=None if row.used_at is None else to_timestamp(row.used_at),
    )
