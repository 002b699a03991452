"""Pages of a person's own passkeys and recovery codes."""

from typing import Any, Final

from aiohttp import web

from console.account.second_factor import PASSKEYS, passkey_answer, passkey_host
from console.account.sign_in_queue import SignInQueue
from console.forms.urlencoded import Form, check_sender, read_form
from console.http.protection import source_of
from console.responses import Responses
from console.sessions import NewServices, Sessions, Visitor
from console.settings import ConsoleSettings
from console.visit import Redirect, View
from contract.fields import rules_of
from contract.refusals import Refusal
from workflow_api.v1.passkeys_pb2 import (
    BeginPasskeyConfirmationRequest,
    BeginPasskeyRegistrationRequest,
    FinishPasskeyRegistrationRequest,
    GetPasskeysRequest,
    PasskeysOfPerson,
    RemovePasskeyRequest,
    ReplaceRecoveryCodesRequest,
)

ADD: Final = f"{PASSKEYS}/add"
REMOVE: Final = f"{PASSKEYS}/remove"
CODES: Final = f"{PASSKEYS}/codes"

_MAX_LABEL_CHARS: Final = rules_of(FinishPasskeyRegistrationRequest.DESCRIPTOR.fields_by_name["label"]).max_length
_MAX_ID_CHARS: Final = 2_000
_SHOWN: Final = frozenset({"invalid_request", "rate_limited"})


class OwnPasskeys:
    """Handlers of the passkey pages; a change must be confirmed by password or passkey, which queues as sign-ins do."""

    def __init__(self, settings: ConsoleSettings, sessions: Sessions, responses: Responses, queue: SignInQueue) -> None:
        self._settings = settings
        self._sessions = sessions
        self._responses = responses
        self._queue = queue

    async def show_list(self, request: web.Request, visitor: Visitor, services: NewServices) -> web.Response:
        """Returns the list of passkeys."""
        own = await self._passkeys(visitor, services)
        context = {"own": own, "host": passkey_host(request)}
        return self._responses.view(request, visitor, View("passkeys/list.html", context))

    async def add_form(self, request: web.Request, visitor: Visitor, services: NewServices) -> web.Response:
        """Returns the form for a new passkey."""
        return await self._add_form(request, visitor, services)

    async def add(self, request: web.Request, visitor: Visitor, services: NewServices) -> web.Response:
        """Adds a passkey; shows recovery codes with the first one."""
        form = await self._read_form(request, visitor)
        label, answer = form.get("label", ("",))[0].strip(), passkey_answer(request, form, self._settings)
        if answer is None or not label:
            error = "Passkeys need script, which is off in this browser." if label else "Give the passkey a name."
            return await self._add_form(request, visitor, services, label=label, error=error)
        register = FinishPasskeyRegistrationRequest(token=visitor.secret, label=label[:_MAX_LABEL_CHARS], answer=answer)
        try:
            made = await services(visitor.actor).call("PasskeysService/FinishPasskeyRegistration", register)
        except Refusal as refusal:
            error = self._message_of(refusal)
            return await self._add_form(request, visitor, services, label=label, error=error)
        if made.recovery_codes:
            return self._codes(request, visitor, list(made.recovery_codes))
        return self._responses.redirect(visitor, Redirect(PASSKEYS, f"{made.passkey.label} is added."))

    async def remove_form(self, request: web.Request, visitor: Visitor, services: NewServices) -> web.Response:
        """Asks for the password or a passkey before a passkey is removed."""
        return await self._remove_form(request, visitor, services, request.query.get("id", ""))

    async def remove(self, request: web.Request, visitor: Visitor, services: NewServices) -> web.Response:
        """Removes a passkey."""
        form = await self._read_form(request, visitor)
        credential_id = form.get("id", ("",))[0][:_MAX_ID_CHARS]
        confirmed: dict[str, Any] = self._confirmation(request, visitor, form)
        remove = RemovePasskeyRequest(credential_id=credential_id, **confirmed)
        calls = services(visitor.actor)
        try:
            await self._queue.run(confirmed["address"], lambda: calls.call("PasskeysService/RemovePasskey", remove))
        except Refusal as refusal:
            error = self._message_of(refusal)
            return await self._remove_form(request, visitor, services, credential_id, error)
        return self._responses.redirect(visitor, Redirect(PASSKEYS, "The passkey is removed."))

    async def codes_form(self, request: web.Request, visitor: Visitor, services: NewServices) -> web.Response:
        """Asks for the password or a passkey before new recovery codes are made."""
        return await self._codes_form(request, visitor, services)

    async def codes(self, request: web.Request, visitor: Visitor, services: NewServices) -> web.Response:
        """Makes new recovery codes and shows them."""
        form = await self._read_form(request, visitor)
        confirmed: dict[str, Any] = self._confirmation(request, visitor, form)
        replace, calls = ReplaceRecoveryCodesRequest(**confirmed), services(visitor.actor)
        try:
            made = await self._queue.run(
                confirmed["address"], lambda: calls.call("PasskeysService/ReplaceRecoveryCodes", replace)
            )
        except Refusal as refusal:
            return await self._codes_form(request, visitor, services, self._message_of(refusal))
        return self._codes(request, visitor, list(made.codes))

    async def _passkeys(self, visitor: Visitor, services: NewServices) -> PasskeysOfPerson:
        listed = GetPasskeysRequest(token=visitor.secret)
        own: PasskeysOfPerson = await services(visitor.actor).call("PasskeysService/GetPasskeys", listed)
        return own

    async def _read_form(self, request: web.Request, visitor: Visitor) -> Form:
        """Reads the form of a request from this console's own pages."""
        check_sender(request, self._settings)
        return await read_form(request, visitor.secret, self._settings)

    def _confirmation(self, request: web.Request, visitor: Visitor, form: Form) -> dict[str, Any]:
        """Returns the fields of a call that confirm a change: the session, and a password or a passkey's answer."""
        return {
            "token": visitor.secret,
            "password": form.get("password", ("",))[0],
            "answer": passkey_answer(request, form, self._settings),
            "address": source_of(request, self._settings.client_address),
        }

    async def _add_form(
        self, request: web.Request, visitor: Visitor, services: NewServices, *, label: str = "", error: str = ""
    ) -> web.Response:
        host, options = passkey_host(request), ""
        if host:
            begin = BeginPasskeyRegistrationRequest(token=visitor.secret, host=host)
            asked = await services(visitor.actor).call("PasskeysService/BeginPasskeyRegistration", begin)
            options = asked.options_json
        context = {"options": options, "label": label, "error": error, "longest": _MAX_LABEL_CHARS}
        return self._responses.view(request, visitor, View("passkeys/add.html", context, 400 if error else 200))

    async def _remove_form(
        self, request: web.Request, visitor: Visitor, services: NewServices, credential_id: str, error: str = ""
    ) -> web.Response:
        own = await self._passkeys(visitor, services)
        passkey = next((each for each in own.passkeys if each.credential_id == credential_id), None)
        if passkey is None:
            raise web.HTTPNotFound
        last = "It is your last one: the recovery codes go with it." if len(own.passkeys) == 1 else ""
        context = {
            "heading": f"Remove {passkey.label}",
            "text": f"It will not work here any more. {last}".strip(),
            "action": REMOVE,
            "fields": {"id": credential_id},
            "label": "Remove",
            "kind": "danger",
        }
        return await self._confirm_form(request, visitor, services, context, error)

    async def _codes_form(
        self, request: web.Request, visitor: Visitor, services: NewServices, error: str = ""
    ) -> web.Response:
        context = {
            "heading": "New recovery codes",
            "text": "They replace those that you have.",
            "action": CODES,
            "fields": {},
            "label": "Make new codes",
            "kind": "",
        }
        return await self._confirm_form(request, visitor, services, context, error)

    async def _confirm_form(
        self, request: web.Request, visitor: Visitor, services: NewServices, context: dict[str, Any], error: str
    ) -> web.Response:
        begin = BeginPasskeyConfirmationRequest(token=visitor.secret, host=passkey_host(request))
        asked = await services(visitor.actor).call("PasskeysService/BeginPasskeyConfirmation", begin)
        view = View(
            "passkeys/confirm.html",
            {**context, "options": asked.options_json, "error": error},
            400 if error else 200,
        )
        return self._responses.view(request, visitor, view)

    def _codes(self, request: web.Request, visitor: Visitor, codes: list[str]) -> web.Response:
        return self._responses.view(request, visitor, View("passkeys/codes.html", {"codes": codes}))

    @staticmethod
    def _message_of(refusal: Refusal) -> str:
        """Returns the message of a refusal that the form shows; raises other refusals."""
        if refusal.code not in _SHOWN:
            raise refusal
        problems: Any = refusal.details if isinstance(refusal.details, list) else ()
        words = {"password": "The password", "answer": "It", "label": "The name", "token": "This"}
        parts = [f"{words.get(each['name'], each['name'])} {each['reason']}." for each in problems]
        return " ".join(parts) or refusal.message
