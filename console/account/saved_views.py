"""Forms of a person's saved views: addresses of lists with filters, under names of their own."""

from collections.abc import Mapping
from typing import Final

from aiohttp import web
from google.protobuf.message import Message

from console.account.preferences import LISTS, PREFERENCES
from console.forms.urlencoded import check_sender, problems_of, read_form
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

    def __init__(self, settings: ConsoleSettings, responses: Responses) -> None:
        self._settings = settings
        self._responses = responses

    async def save(self, request: web.Request, visitor: Visitor, services: NewServices) -> web.Response:
        """Saves a list with its filters, and shows it."""
        sent = await self._sent(request, visitor)
        name, address = sent.get("name", ""), sent.get("address", "")
        if address.partition("?")[0] not in LISTS or not is_own_path(address):
            raise web.HTTPBadRequest(text=f"address must lead to one of {', '.join(LISTS)}, in printable ASCII.")
        asked = SaveViewRequest(token=visitor.secret, view=SavedView(name=name, address=address))
        problem = await self._changed(visitor, services, "SessionsService/SaveView", asked)
        if problem:
            return self._form(request, visitor, SAVE, {"address": address}, name, problem)
        return self._responses.redirect(visitor, Redirect(address, f"The view {name} is saved."))

    async def rename(self, request: web.Request, visitor: Visitor, services: NewServices) -> web.Response:
        """Gives a view another name."""
        sent = await self._sent(request, visitor)
        old, name = sent.get("view", ""), sent.get("name", "")
        asked = RenameViewRequest(token=visitor.secret, name=old, new_name=name)
        problem = await self._changed(visitor, services, "SessionsService/RenameView", asked)
        if problem:
            return self._form(request, visitor, RENAME, {"view": old}, name, problem)
        return self._responses.redirect(visitor, Redirect(PREFERENCES, f"The view {old} is now named {name}."))

    async def remove(self, request: web.Request, visitor: Visitor, services: NewServices) -> web.Response:
        """Removes a view."""
        name = (await self._sent(request, visitor)).get("view", "")
        asked = RemoveViewRequest(token=visitor.secret, name=name)
        await services(visitor.actor).call("SessionsService/RemoveView", asked)
        return self._responses.redirect(visitor, Redirect(PREFERENCES, f"The view {name} is removed."))

    async def _sent(self, request: web.Request, visitor: Visitor) -> Mapping[str, str]:
        check_sender(request, self._settings)
        form = await read_form(request, visitor.secret, self._settings)
        return {name: values[0].strip() for name, values in form.items() if values}

    @staticmethod
    async def _changed(visitor: Visitor, services: NewServices, rpc: str, asked: Message) -> str:
        """Calls an RPC; returns the problem of the name or the address, or an empty text."""
        try:
            await services(visitor.actor).call(rpc, asked)
        except Refusal as refusal:
            return "; ".join(problems_of(refusal).values())
        return ""

    def _form(
        self, request: web.Request, visitor: Visitor, action: str, hidden: Mapping[str, str], name: str, problem: str
    ) -> web.Response:
        context = {"action": action, "hidden": hidden, "name": name, "problem": problem}
        return self._responses.view(request, visitor, View("saved_view.html", context, 400))
