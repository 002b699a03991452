"""A users service in memory."""

from collections.abc import Callable
from typing import Any

from google.protobuf.message import Message

from contract.channel import Messages, Metadata
from contract.local_context import CachedAnswer
from contract.refusals import Refusal
from workflow_api.v1.passkeys_pb2 import (
    Passkey,
    PasskeyOptions,
    PasskeyRegistration,
    PasskeysOfPerson,
    RecoveryCodes,
    RemovePasskeyResponse,
)
from workflow_api.v1.reviews_pb2 import CountPendingApprovalsResponse
from workflow_api.v1.sessions_pb2 import ProviderSignIn, Session, SignInOptions, SignOutResponse
from workflow_api.v1.users_pb2 import ROLE_ADMINISTRATOR, ROLE_APPROVER, User

SESSIONS = "/workflow_api.v1.SessionsService/"
PASSKEYS = "/workflow_api.v1.PasskeysService/"
REVIEWS = "/workflow_api.v1.ReviewsService/"
PASSWORD = "a long password"
LEAVE = "https://login.example.org/leave?client_id=console"
OPTIONS = '{"challenge": "c"}'


class PeopleChannel:
    """Ann is an administrator, bob an approver, and the password of tim is temporary.

    Pia signs in with a passkey as well, which una still has to add.
    """

    def __init__(self) -> None:
        self.people = {
            "ann": User(name="ann", role=ROLE_ADMINISTRATOR),
            "bob": User(name="bob", role=ROLE_APPROVER),
            "pia": User(name="pia", role=ROLE_APPROVER),
            "una": User(name="una", role=ROLE_ADMINISTRATOR, needs_passkey=True),
            "tim": User(name="tim", role=ROLE_APPROVER, password_is_temporary=True),
        }
        self.waiting = 0
        self.provider_label: str | None = None
        self.id_token = ""
        self.sessions: dict[str, str] = {}
        self.reachable = True
        self.calls: list[tuple[str, Any, dict[str, str]]] = []
        self.answers: dict[str, Callable[[Any], Message]] = {
            REVIEWS + "CountPendingApprovals": lambda _: CountPendingApprovalsResponse(total=self.waiting),
            SESSIONS + "SignIn": self._sign_in,
            SESSIONS + "GetSignInOptions": lambda _: SignInOptions(provider_label=self.provider_label),
            SESSIONS + "BeginProviderSignIn": self._begin_with_provider,
            SESSIONS + "FinishProviderSignIn": self._finish_with_provider,
            SESSIONS + "GetSession": self._get_session,
            PASSKEYS + "BeginPasskeySignIn": self._begin_with_passkey,
            PASSKEYS + "FinishPasskeySignIn": self._finish_with_passkey,
            PASSKEYS + "GetPasskeys": lambda _: PasskeysOfPerson(
                passkeys=[Passkey(credential_id="c-1", label="<laptop>", host="localhost")], recovery_codes=9
            ),
            PASSKEYS + "BeginPasskeyRegistration": lambda _: PasskeyOptions(options_json=OPTIONS),
            PASSKEYS + "FinishPasskeyRegistration": self._add_passkey,
            PASSKEYS + "BeginPasskeyConfirmation": lambda _: PasskeyOptions(options_json=OPTIONS),
            PASSKEYS + "RemovePasskey": self._remove_passkey,
            PASSKEYS + "ReplaceRecoveryCodes": lambda _: RecoveryCodes(codes=["new-code"]),
            SESSIONS + "SignOut": self._sign_out,
            SESSIONS + "ChangePassword": self._change_password,
            SESSIONS + "SetPreferences": self._set_preferences,
            SESSIONS + "SaveView": self._save_view,
            SESSIONS + "RenameView": self._rename_view,
            SESSIONS + "RemoveView": self._remove_view,
        }

    def begin(self, name: str) -> str:
        """Starts a session; returns its token."""
        token = f"token-{len(self.sessions)}-of-{name}"
        self.sessions[token] = name
        return token

    async def answer(self, rpc: str, request: Message, metadata: Metadata, seconds: float) -> CachedAnswer:
        return CachedAnswer(await self.unary(rpc, request, metadata, seconds))

    async def unary(self, rpc: str, request: Message, metadata: Metadata, seconds: float) -> Message:
        self.calls.append((rpc, request, dict(metadata)))
        if not self.reachable:
            raise Refusal("runtime_unreachable")
        return self.answers[rpc](request)

    def stream(self, rpc: str, request: Message, metadata: Metadata, seconds: float) -> Messages:
        raise NotImplementedError

    async def close(self) -> None:
        pass

    def _sign_in(self, request: Any) -> Session:
        if request.name == "eve":
            raise Refusal("rate_limited", retry_after=60)
        if request.name not in self.people or request.password != PASSWORD:
            raise Refusal("unauthorized")
        if request.name == "pia":
            return Session(pending_token="pending-of-pia")
        return Session(token=self.begin(request.name), user=self.people[request.name])

    def _begin_with_passkey(self, request: Any) -> PasskeyOptions:
        if request.pending_token != "pending-of-pia":
            raise Refusal("unauthorized")
        return PasskeyOptions(options_json=OPTIONS if request.host == "localhost" else "", hosts=["localhost"])

    def _finish_with_passkey(self, request: Any) -> Session:
        right = request.answer.response_json == "signed" or request.recovery_code == "a-code"
        if request.pending_token != "pending-of-pia" or not right:
            raise Refusal("unauthorized", "This was not accepted: try again.")
        return Session(token=self.begin("pia"), user=self.people["pia"])

    def _add_passkey(self, request: Any) -> PasskeyRegistration:
        if request.answer.response_json != "signed":
            raise Refusal("invalid_request", details=[{"name": "answer", "reason": "must be made just now"}])
        return PasskeyRegistration(passkey=Passkey(label=request.label), recovery_codes=["a-code"])

    def _remove_passkey(self, request: Any) -> RemovePasskeyResponse:
        if request.password != PASSWORD and request.answer.response_json != "signed":
            raise Refusal("invalid_request", details=[{"name": "password", "reason": "must be your password"}])
        return RemovePasskeyResponse()

    def _begin_with_provider(self, request: Any) -> ProviderSignIn:
        return ProviderSignIn(authorization_url="https://login.example.org/authorize?state=s", attempt="1.secret")

    def _finish_with_provider(self, request: Any) -> Session:
        if (request.attempt, request.state, request.code) != ("1.secret", "s", "of-bob"):
            raise Refusal("unauthorized", "You may not.")
        return Session(token=self.begin("bob"), user=self.people["bob"], id_token=self.id_token)

    def _get_session(self, request: Any) -> Session:
        if request.token not in self.sessions:
            raise Refusal("unauthorized")
        return Session(user=self.people[self.sessions[request.token]])

    def _set_preferences(self, request: Any) -> User:
        user = self.people[self.sessions[request.token]]
        user.preferences.CopyFrom(request.preferences)
        return user

    def _save_view(self, request: Any) -> User:
        user = self.people[self.sessions[request.token]]
        if any(view.name == request.view.name for view in user.views):
            raise Refusal("invalid_request", details=[{"name": "view.name", "reason": "must be another name"}])
        user.views.append(request.view)
        return user

    def _rename_view(self, request: Any) -> User:
        user = self.people[self.sessions[request.token]]
        if any(view.name == request.new_name for view in user.views):
            raise Refusal("invalid_request", details=[{"name": "new_name", "reason": "must be another name"}])
        next(view for view in user.views if view.name == request.name).name = request.new_name
        return user

    def _remove_view(self, request: Any) -> User:
        user = self.people[self.sessions[request.token]]
        user.views.remove(next(view for view in user.views if view.name == request.name))
        return user

    def _sign_out(self, request: Any) -> SignOutResponse:
        self.sessions.pop(request.token, None)
        return SignOutResponse(provider_url=f"{LEAVE}&id_token_hint={request.id_token}" if request.id_token else None)

    def _change_password(self, request: Any) -> User:
        if request.token not in self.sessions:
            raise Refusal("unauthorized")
        if request.password != PASSWORD:
            raise Refusal("invalid_request", details=[{"name": "password", "reason": "must be the password until now"}])
        user = self.people[self.sessions[request.token]]
        user.password_is_temporary = False
        return user
