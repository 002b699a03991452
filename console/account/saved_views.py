"""Forms of a person's saved views: addresses of lists with filters, under names of their own."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

from aiohttp import web
from google.protobuf.message import Message

from console.account.preferences import LISTS, PREFERENCES
from console.forms.kept_forms import FormRepeats, form_key
from console.forms.urlencoded import TOKEN, check_sender, problems_of, read_form
from console.responses import Responses, is_own_path
from console.sessions import NewServices, Visitor
from console.settings import ConsoleSettings
from console.visit import Redirect, View
from contract.refusals import Refusal
from workflow_api.v1.sessions_pb2 import RemoveViewRequest, RenameViewRequest, SaveViewRequest
from workflow_api.v1.users_pb2 import SavedView

SAVE: Final = "/views"
RENAME: Final = "/views/rename"
REMOVE: Final = "/views/remove"


class SavedViewForms:
    """Handlers of the forms that save, rename and remove a view."""

    def __init__(self, settings: ConsoleSettings, responses: Responses, repeats: FormRepeats) -> None:
        self._settings = settings
        self._repeats = repeats
        self._responses = responses

    async def save(self, request: web.Request, visitor: Visitor, services: NewServices) -> web.Response:
        """Saves a list with its filters, and shows it."""

        async def handle(sent: Mapping[str, str]) -> Redirect | View:
            name, address = sent.get("name", ""), sent.get("address", "")
            if address.partition("?")[0] not in LISTS or not is_own_path(address):
                raise web.HTTPBadRequest(text=f"address must lead to one of {', '.join(LISTS)}, in printable ASCII.")
            asked = SaveViewRequest(token=visitor.secret, view=SavedView(name=name, address=address))
            problem = await self._changed(visitor, services, "SessionsService/SaveView", asked)
            if problem:
                return _form(SAVE, {"address": address}, name, problem)
            return Redirect(address, f"The view {name} is saved.")

        return await self._once(request, visitor, handle)

    async def rename(self, request: web.Request, visitor: Visitor, services: NewServices) -> web.Response:
        """Gives a view another name."""

        async def handle(sent: Mapping[str, str]) -> Redirect | View:
            old, name = sent.get("view", ""), sent.get("name", "")
            asked = RenameViewRequest(token=visitor.secret, name=old, new_name=name)
            problem = await self._changed(visitor, services, "SessionsService/RenameView", asked)
            if problem:
                return _form(RENAME, {"view": old}, name, problem)
            return Redirect(PREFERENCES, f"The view {old} is now named {name}.")

        return await self._once(request, visitor, handle)

    async def remove(self, request: web.Request, visitor: Visitor, services: NewServices) -> web.Response:
        """Removes a view."""

        async def handle(sent: Mapping[str, str]) -> Redirect | View:
            name = sent.get("view", "")
            asked = RemoveViewRequest(token=visitor.secret, name=name)
            await services(visitor.actor).call("SessionsService/RemoveView", asked)
            return Redirect(PREFERENCES, f"The view {name} is removed.")

        return await self._once(request, visitor, handle)

    async def _once(
        self,
        request: web.Request,
        visitor: Visitor,
        handle: Callable[[Mapping[str, str]], Awaitable[Redirect | View]],
    ) -> web.Response:
        """Answers a form; a repeated one takes effect once, and ends as the first did."""
        check_sender(request, self._settings)
        form = await read_form(request, visitor.secret, self._settings)
        sent = {name: values[0].strip() for name, values in form.items() if values}
        key = form_key(visitor.secret, request.path_qs, request[TOKEN], form)
        result = await self._repeats.once(key, partial(handle, sent))
        if isinstance(result, Redirect):
            return self._responses.redirect(visitor, result)
        assert isinstance(result, View)
        return self._responses.view(request, visitor, result)

    @staticmethod
    async def _changed(visitor: Visitor, services: NewServices, rpc: str, asked: Message) -> str:
        """Calls an RPC; returns the problem of the name or the address, or an empty text."""
        try:
            await services(visitor.actor).call(rpc, asked)
        except Refusal as refusal:
            return "; ".join(problems_of(refusal).values())
        return ""


def _form(action: str, hidden: Mapping[str, str], name: str, problem: str) -> View:
    context = {"action": action, "hidden": hidden, "name": name, "problem": problem}
    return View("saved_view.html", context, 400)
