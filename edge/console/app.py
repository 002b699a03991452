"""The console: one web application over the services, in the running event loop."""

import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

from aiohttp import web

from edge.channel import Channel
from edge.console import metrics
from edge.console.account import PASSWORD, SIGN_IN, SIGN_OUT, Account, sign_in_address
from edge.console.answers import Answers
from edge.console.connections import ConsoleServer
from edge.console.events import EventStreams
from edge.console.forms import Form, check_sender, read_form
from edge.console.headers import NOT_KEPT, common_headers
from edge.console.hosts import check_host
from edge.console.pages import all_pages
from edge.console.rendering import Rendering
from edge.console.services import ChannelServices
from edge.console.sessions import NewServices, Sessions, Visitor
from edge.console.settings import ConsoleSettings
from edge.console.static_files import ROUTE, StaticFiles
from edge.console.visit import EventStream, Page, Redirect, Services, View, Visit
from edge.errors import Refusal
from edge.http.request_id import request_id_from
from telemetry import Family

_LOG = logging.getLogger(__name__)
_NOBODY: Final = Visitor("")

HEALTH: Final = "/healthz"
"""For whoever watches over the process, by whatever name."""

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_Answering = Callable[[web.Request, Visitor, NewServices], Awaitable[web.StreamResponse]]


@dataclass(slots=True)
class _Asked:
    """What is known of a request while it is answered."""

    request_id: str
    visitor: Visitor = _NOBODY


_ASKED: Final = web.RequestKey("asked", _Asked)


class Console:
    """One console; `port` says where it listens once it has started."""

    def __init__(self, settings: ConsoleSettings, channel: Channel, pages: Iterable[Page] | None = None) -> None:
        self.port = settings.port
        self._settings = settings
        self._channel = channel
        self._pages = tuple(all_pages() if pages is None else pages)
        self._headers = common_headers(https=settings.https)
        self._files = StaticFiles()
        self._sessions = Sessions(settings)
        self._answers = Answers(Rendering(self._files), self._sessions, self._pages)
        self._account = Account(settings, self._sessions, self._answers)
        self._streams = EventStreams(settings)
        self._server: ConsoleServer | None = None

    async def start(self) -> None:
        """Listen.

        Raises:
            OSError: the address cannot be bound.
        """
        self._server = ConsoleServer(self._application(), self._settings, self._headers)
        await self._server.start()
        self.port = self._server.port

    async def stop(self) -> None:
        """End live updates, answer what was asked, and close."""
        self._streams.stop()
        self._account.stop()
        if self._server is not None:
            await self._server.stop()

    def measured(self) -> list[Family]:
        """Return what tells of its state, and what all consoles of this process have counted; from any thread."""
        connected = len(self._server.connections) if self._server is not None else 0
        return [
            metrics.REQUESTS.collect(),
            metrics.CONNECTIONS.with_value(connected),
            metrics.LIVE_UPDATES.with_value(self._streams.count),
        ]

    def _application(self) -> web.Application:
        app = web.Application(middlewares=[self._answer])
        app.on_response_prepare.append(self._add_headers)
        app.router.add_get(HEALTH, _healthz)
        app.router.add_get(ROUTE, self._files.answer)
        account = self._account
        app.router.add_get(SIGN_IN, self._for_anybody(account.sign_in_form))
        app.router.add_post(SIGN_IN, self._for_anybody(account.sign_in))
        app.router.add_post(SIGN_OUT, self._for_anybody(account.sign_out))
        app.router.add_get(PASSWORD, self._for_people(account.password_form))
        app.router.add_post(PASSWORD, self._for_people(account.password))
        for page in self._pages:
            app.router.add_route(page.method, page.path, self._for_people(partial(self._page, page)))
        return app

    def _for_anybody(self, answer: _Answering) -> _Handler:
        """Return a handler that is told who has sent a request, if they have signed in."""

        async def handle(request: web.Request) -> web.StreamResponse:
            asked = request[_ASKED]
            services = partial(self._services, asked.request_id)
            asked.visitor = await self._sessions.visitor(request, services)
            return await answer(request, asked.visitor, services)

        return handle

    def _for_people(self, answer: _Answering) -> _Handler:
        """Return a handler for those who have signed in; others are sent to do so first."""

        async def answer_people(request: web.Request, visitor: Visitor, services: NewServices) -> web.StreamResponse:
            if visitor.user is None:
                return self._stranger(request, visitor)
            if visitor.user.password_is_temporary and request.path != PASSWORD:
                return self._answers.redirect(visitor, Redirect(PASSWORD))
            return await answer(request, visitor, services)

        return self._for_anybody(answer_people)

    def _stranger(self, request: web.Request, visitor: Visitor) -> web.StreamResponse:
        if request.method not in {"GET", "HEAD"}:
            raise web.HTTPUnauthorized
        if request.headers.get("Sec-Fetch-Site") in {"cross-site", "same-site"}:
            # A link on another site: the browser keeps the session's cookie back until a page of ours asks.
            return self._answers.view(request, visitor, View("continue.html"))
        return self._answers.redirect(visitor, Redirect(sign_in_address(request)))

    async def _page(
        self, page: Page, request: web.Request, visitor: Visitor, services: NewServices
    ) -> web.StreamResponse:
        user = visitor.user
        assert user is not None
        if user.role not in page.roles:
            raise web.HTTPForbidden
        form: Form = {}
        if page.method != "GET":
            check_sender(request, self._settings)
            form = await read_form(request, visitor.secret, self._settings)
        query = {name: request.query.getone(name) for name in request.query}
        answered = await page.answer(Visit(user, services(visitor.actor), dict(request.match_info), query, form))
        if isinstance(answered, EventStream):
            lasts = partial(self._lasts, request, visitor, services)
            return await self._streams.send(request, visitor.secret, answered.events, lasts)
        if isinstance(answered, Redirect):
            return self._answers.redirect(visitor, answered)
        return self._answers.view(request, visitor, answered)

    async def _lasts(self, request: web.Request, visitor: Visitor, services: NewServices) -> bool:
        """Return whether a session lasts, and is still that of the same role."""
        try:
            now = await self._sessions.visitor(request, services)
        except Refusal:
            # Who cannot be asked about is not sent away.
            return True
        return now.user is not None and visitor.user is not None and now.user.role == visitor.user.role

    def _services(self, request_id: str, actor: str) -> Services:
        return ChannelServices(self._channel, actor, request_id, self._settings.backend_seconds)

    @web.middleware
    async def _answer(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Answer whatever was asked, and count it; nothing but a cancellation leaves here."""
        asked = request[_ASKED] = _Asked(request_id_from(request.headers.getall("X-Request-Id", [])))
        response = await self._answered(request, asked, handler)
        metrics.count(request, response.status)
        return response

    async def _answered(self, request: web.Request, asked: _Asked, handler: _Handler) -> web.StreamResponse:
        try:
            if request.path != HEALTH:
                check_host(request, self._settings)
            return await handler(request)
        except Refusal as refusal:
            return self._answers.refusal(request, asked.visitor, refusal, asked.request_id)
        except web.HTTPException as error:
            return self._answers.failure(request, asked.visitor, error, asked.request_id)
        except ConnectionError:
            raise
        except Exception:  # noqa: BLE001 - whatever it is, the browser learns nothing of it
            _LOG.exception("request %s failed", asked.request_id)
            return self._answers.failure(request, asked.visitor, web.HTTPInternalServerError(), asked.request_id)

    async def _add_headers(self, request: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(self._headers)
        response.headers.setdefault("Cache-Control", NOT_KEPT)
        asked = request.get(_ASKED)
        if asked is not None:
            response.headers["X-Request-Id"] = asked.request_id


async def _healthz(_: web.Request) -> web.Response:
    return web.Response(text="ok")
