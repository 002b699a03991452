"""PasskeysService over gRPC."""

import grpc

from backend.errors import invalid
from backend.rpc.interceptors import caller_of
from backend.services import Services
from backend.storage.tables.users import PasskeyRow
from backend.users.messages import session_message
from backend.users.passkeys.ceremony import Answer
from backend.users.passkeys.own import Confirmation, OwnPasskeys
from backend.users.passkeys.second_factor import SecondFactor
from backend.users.passwords import Passwords
from backend.users.sign_in import SignIns
from contract.times import to_timestamp
from workflow_api.v1 import passkeys_pb2, passkeys_pb2_grpc, sessions_pb2


class PasskeysServicer(passkeys_pb2_grpc.PasskeysServiceServicer):
    """Passkeys of people, for the console."""

    def __init__(self, services: Services, passwords: Passwords, sign_ins: SignIns) -> None:
        self._sign_ins = sign_ins
        self._second_factor = SecondFactor(services)
        self._own = OwnPasskeys(services, passwords, sign_ins)

    def BeginPasskeySignIn(
        self, request: passkeys_pb2.BeginPasskeySignInRequest, context: grpc.ServicerContext
    ) -> passkeys_pb2.PasskeyOptions:
        """Returns what the browser of a sign-in is asked."""
        options, hosts = self._second_factor.begin(request.pending_token, request.host)
        return passkeys_pb2.PasskeyOptions(options_json=options, hosts=hosts)

    def FinishPasskeySignIn(
        self, request: passkeys_pb2.FinishPasskeySignInRequest, context: grpc.ServicerContext
    ) -> sessions_pb2.Session:
        """Begins the session of a sign-in."""
        token, address, actor = request.pending_token, request.address, caller_of(context).audit_name
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
        rows, codes, required = self._own.listed(request.token)
        return passkeys_pb2.PasskeysOfPerson(
            passkeys=[_passkey(row) for row in rows], recovery_codes=codes, required=required
        )

    def BeginPasskeyRegistration(
        self, request: passkeys_pb2.BeginPasskeyRegistrationRequest, context: grpc.ServicerContext
    ) -> passkeys_pb2.PasskeyOptions:
        """Returns what the browser is asked with a new passkey."""
        return passkeys_pb2.PasskeyOptions(options_json=self._own.begin_registration(request.token, request.host))

    def FinishPasskeyRegistration(
        self, request: passkeys_pb2.FinishPasskeyRegistrationRequest, context: grpc.ServicerContext
    ) -> passkeys_pb2.PasskeyRegistration:
        """Adds a passkey."""
        actor = caller_of(context).audit_name
        row, codes = self._own.register(request.token, request.label, _answer(request.answer), actor)
        return passkeys_pb2.PasskeyRegistration(passkey=_passkey(row), recovery_codes=codes)

    def BeginPasskeyConfirmation(
        self, request: passkeys_pb2.BeginPasskeyConfirmationRequest, context: grpc.ServicerContext
    ) -> passkeys_pb2.PasskeyOptions:
        """Returns what the browser is asked to confirm a change."""
        return passkeys_pb2.PasskeyOptions(options_json=self._own.begin_confirmation(request.token, request.host))

    def RemovePasskey(
        self, request: passkeys_pb2.RemovePasskeyRequest, context: grpc.ServicerContext
    ) -> passkeys_pb2.RemovePasskeyResponse:
        """Removes a passkey."""
        actor = caller_of(context).audit_name
        self._own.remove(request.token, request.credential_id, _confirmation(request), actor)
        return passkeys_pb2.RemovePasskeyResponse()

    def ReplaceRecoveryCodes(
        self, request: passkeys_pb2.ReplaceRecoveryCodesRequest, context: grpc.ServicerContext
    ) -> passkeys_pb2.RecoveryCodes:
        """Makes new recovery codes."""
        actor = caller_of(context).audit_name
        return passkeys_pb2.RecoveryCodes(codes=self._own.new_codes(request.token, _confirmation(request), actor))


def _answer(given: passkeys_pb2.PasskeyAnswer) -> Answer:
    return Answer(given.response_json, given.origin, given.host)


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
