"""The console's aiohttp application: serves pages, sessions and errors in the running event loop."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Final

from aiohttp import web

from console import instrumentation
from console.account.ended_sessions import EndedSessions
from console.account.own_passkeys import OwnPasskeys
from console.account.preferences import PreferencesPage
from console.account.provider_sign_in import ProviderSignIn
from console.account.saved_views import SavedViewForms
from console.account.second_factor import PASSKEYS, PASSWORD, SecondFactor
from console.account.sign_in import Account, sign_in_address
from console.account.sign_in_queue import SignInQueue
from console.forms.kept_forms import FormRepeats, form_key
from console.forms.multipart import has_files, read_file_form
from console.forms.urlencoded import TOKEN, Form, check_sender, read_form
from console.http.connections import ConsoleConnection, ConsoleServer
from console.http.downloads import Downloads
from console.http.event_streams import EventStreams
from console.http.protection import NO_STORE, check_host, common_headers
from console.http.static_files import STATIC, StaticFiles
from console.instrumentation import ConsoleRequestLog, PageSpan
from console.pages.waiting import WAITING, count_waiting
from console.rendering.templates import Rendering
from console.rendering.times import zone_named
from console.responses import AUTOMATIC, REFRESH, Responses, shows_navigation
from console.routes import DESIGN, HEALTH, PAGES, ROUTES, Health, Needs, VisitorRoute
from console.sessions import ChannelServices, NewServices, Sessions, Visitor
from console.settings import ConsoleSettings
from console.visit import FileDownload, Page, PageEvents, Redirect, TryCall, UserServices, View, Visit
from contract.channel import Channel
from contract.channel.traced import traced
from contract.ids import request_id_from
from contract.refusals import Refusal
from telemetry import Family, tracing
from telemetry.requests import ABORTED, CLIENT_GONE

_LOG = logging.getLogger(__name__)
_NOBODY: Final = Visitor("")
_EVENTS: Final = "text/event-stream"
_POLICY: Final = "Content-Security-Policy"
_WITHOUT_HANDLER: Final = frozenset({404, 405})

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_VisitorHandler = Callable[[web.Request, Visitor, NewServices], Awaitable[web.StreamResponse]]


@dataclass(slots=True)
class _RequestState:
    """State of a request while it is handled."""

    request_id: str
    visitor: Visitor = _NOBODY
    reason: str = ""
    """Error code of a refusal."""
    span: PageSpan | None = None


_STATE: Final = web.RequestKey("state", _RequestState)


class Console:
    """The console; `port` is the port on which it listens once it has started."""

    def __init__(
        self, settings: ConsoleSettings, channel: Channel, try_call: TryCall, pages: Iterable[Page] | None = None
    ) -> None:
        self.port = settings.port
        self._settings = settings
        self._channel = traced(channel)
        self._try_call = try_call
        self._tracing = tracing.active()
        self._pages = (*(PAGES if pages is None else pages), *((DESIGN,) if settings.design_sheet else ()))
        self._headers = common_headers(https=settings.https)
        self._files = StaticFiles()
        self._sessions = Sessions(settings)
        self._rendering = Rendering(self._files, settings.api_url)
        self._preparing: asyncio.Task[None] | None = None
        self._responses = Responses(self._rendering, self._sessions, self._pages)
        self._queue = SignInQueue()
        shared = (settings, self._sessions, self._responses, self._queue)
        self._provider = ProviderSignIn(settings, self._sessions, self._responses)
        self._repeats = FormRepeats()
        self._parts = (
            Health(),
            self._files,
            self._provider,
            Account(*shared),
            SecondFactor(*shared),
            OwnPasskeys(*shared),
            PreferencesPage(settings, self._responses),
            SavedViewForms(settings, self._responses, self._repeats),
        )
        self._ended = EndedSessions(settings, self._sessions, self._responses)
        self._streams = EventStreams(settings)
        self._downloads = Downloads(settings.stall_seconds)
        self._log = ConsoleRequestLog(HEALTH)
        self._server: ConsoleServer | None = None

    async def start(self) -> None:
        """Starts to listen.

        Raises:
            OSError: the address cannot be bound.
        """
        self._server = ConsoleServer(self._application(), self._settings, self._headers)
        await self._server.start()
        self.port = self._server.port
        self._preparing = asyncio.create_task(self._rendering.prepare())

    async def stop(self) -> None:
        """Ends live updates, lets requests under way finish, and closes."""
        if self._preparing is not None:
            self._preparing.cancel()
        self._streams.stop()
        self._queue.close()
        self._provider.stop()
        if self._server is not None:
            await self._server.stop()

    @property
    def connections(self) -> list[ConsoleConnection]:
        """Open connections of browsers."""
        return [] if self._server is None else self._server.connections

    def measured(self) -> list[Family]:
        """Returns the console's gauges and the counters of its process; callable from any thread."""
        return [
            instrumentation.REQUESTS.collect(),
            instrumentation.CONNECTIONS.with_value(len(self.connections)),
            instrumentation.LIVE_UPDATES.with_value(self._streams.count),
        ]

    def _application(self) -> web.Application:
        app = web.Application(middlewares=[self._middleware])
        app.on_response_prepare.append(self._add_headers)
        parts = {type(part): part for part in self._parts}
        handler: _Handler
        for route in ROUTES:
            handler = partial(route.handler, parts[route.owner])
            if route.needs is not Needs.NOTHING:
                handler = self._for_visitors(handler, route.needs)
            _add(app, route, handler)
        for page in self._pages:
            _add(app, page, self._for_visitors(partial(self._page, page), Needs.SIGNED_IN, page))
        return app

    def _for_visitors(self, handler: _VisitorHandler, needs: Needs, page: Page | None = None) -> _Handler:
        """Returns a handler that answers visitors at the needed stage of signing in, and sends others to sign in."""

        async def handle(request: web.Request) -> web.StreamResponse:
            state = request[_STATE]
            services = partial(self._services, state.request_id)
            visitor = state.visitor = await self._sessions.visitor(request, services, automatic=_is_automatic(request))
            if needs is Needs.VISITOR:
                return await handler(request, visitor, services)
            if visitor.user is None:
                if page is not None and page.method != "GET" and REFRESH not in request.headers:
                    return await self._ended.keep(request, page)
                return self._ask_to_sign_in(request, visitor)
            if visitor.user.password_is_temporary and needs > Needs.SESSION:
                return self._responses.redirect(visitor, Redirect(PASSWORD))
            if visitor.user.needs_passkey and needs > Needs.OWN_PASSWORD:
                return self._responses.redirect(visitor, Redirect(PASSKEYS))
            visitor = state.visitor = await _with_count(request, visitor, services)
            return await handler(request, visitor, services)

        return handle

    def _ask_to_sign_in(self, request: web.Request, visitor: Visitor) -> web.StreamResponse:
        if request.method not in {"GET", "HEAD"}:
            raise web.HTTPUnauthorized
        if request.headers.get("Sec-Fetch-Site") in {"cross-site", "same-site"}:
            # After a link on another site the browser withholds the session's cookie until our own page leads on.
            return self._responses.view(request, visitor, View("continue.html"))
        return self._responses.redirect(visitor, Redirect(sign_in_address(request.raw_path)))

    async def _page(
        self, page: Page, request: web.Request, visitor: Visitor, services: NewServices
    ) -> web.StreamResponse:
        user = visitor.user
        assert user is not None
        if user.role not in page.roles:
            raise web.HTTPForbidden
        form: Form = {}
        refused: Mapping[str, str] = {}
        own_services = services(visitor.actor)
        if page.method != "GET":
            check_sender(request, self._settings)
            if page.takes_files and has_files(request):
                form, refused = await read_file_form(
                    request, visitor.secret, self._settings, own_services, page.repeated_fields
                )
            else:
                form = await read_form(request, visitor.secret, self._settings, page.repeated_fields)
        query = {name: request.query.getone(name) for name in request.query}
        queries = {name: request.query.getall(name) for name in page.repeated_fields if name in request.query}
        names, refresh = dict(request.match_info), REFRESH in request.headers
        visit = Visit(
            user,
            own_services,
            names,
            query,
            form,
            refused,
            refresh,
            queries=queries,
            try_call=self._try_call,
            zone=zone_named(user.preferences.time_zone),
        )
        if page.method == "GET":
            result = await page.handler(visit)
        else:
            key = form_key(visitor.secret, request.path_qs, request[TOKEN], form)
            result = await self._repeats.once(key, partial(page.handler, visit))
        if isinstance(result, PageEvents):
            session_lasts = partial(self._session_lasts, request, visitor, services)
            return await self._streams.send(request, visitor.secret, result.events, session_lasts)
        if isinstance(result, FileDownload):
            return await self._downloads.send(request, visitor.secret, result)
        if isinstance(result, Redirect):
            return self._responses.redirect(visitor, result)
        return self._ended.view(request, visitor, result)

    async def _session_lasts(self, request: web.Request, visitor: Visitor, services: NewServices) -> bool:
        """Returns whether the session still exists, with unchanged permissions."""
        try:
            now = await self._sessions.visitor(request, services, automatic=True)
        except Refusal:
            # While the backend cannot be reached, the session is assumed to last.
            return True
        before = visitor.user
        if now.user is None or before is None:
            return False
        return (now.user.role, now.user.decides_for) == (before.role, before.decides_for)

    def _services(self, request_id: str, actor: str) -> UserServices:
        return ChannelServices(self._channel, actor, request_id, self._settings.backend_seconds)

    @web.middleware
    async def _middleware(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Handles and counts a request; raises nothing but a cancellation."""
        state = request[_STATE] = _RequestState(request_id_from(request.headers.getall("X-Request-Id", [])))
        began = perf_counter()
        if self._tracing is not None and request.path != HEALTH and not request.path.startswith(STATIC):
            state.span = PageSpan(self._tracing, request, state.request_id)
        response, reason = None, CLIENT_GONE
        try:
            response = await self._respond(request, state, handler)
            reason = state.reason
        except asyncio.CancelledError:
            reason = ABORTED
            raise
        finally:
            self._log.add(request, state.request_id, began, response, reason)
            if state.span is not None:
                state.span.end(None if response is None else response.status, reason)
        instrumentation.count(request, response.status)
        return response

    async def _respond(self, request: web.Request, state: _RequestState, handler: _Handler) -> web.StreamResponse:
        try:
            if request.path != HEALTH:
                check_host(request, self._settings)
            return await handler(request)
        except Refusal as refusal:
            state.reason = refusal.code
            return self._responses.refusal(request, state.visitor, refusal, state.request_id)
        except web.HTTPException as error:
            if error.status in _WITHOUT_HANDLER and not request.path.startswith(STATIC):
                await self._find_visitor(request, state)
            return self._responses.failure(request, state.visitor, error, state.request_id)
        except ConnectionError:
            raise
        except Exception:  # noqa: BLE001 - no error is shown to a browser
            _LOG.exception("A request failed", extra={"request_id": state.request_id})
            state.reason = "internal"
            return self._responses.failure(request, state.visitor, web.HTTPInternalServerError(), state.request_id)

    async def _find_visitor(self, request: web.Request, state: _RequestState) -> None:
        """Identifies the visitor of an unknown path, so that the error page has their navigation."""
        if state.visitor is _NOBODY:
            with suppress(Refusal):
                services = partial(self._services, state.request_id)
                visitor = await self._sessions.visitor(request, services)
                state.visitor = await _with_count(request, visitor, services)

    async def _add_headers(self, request: web.Request, response: web.StreamResponse) -> None:
        policy = response.headers.get(_POLICY)
        response.headers.update(self._headers)
        if policy is not None:
            response.headers[_POLICY] = policy
        response.headers.setdefault("Cache-Control", NO_STORE)
        state = request.get(_STATE)
        if state is not None:
            response.headers["X-Request-Id"] = state.request_id
            if state.span is not None:
                # Ends the write of a download or of live updates, which may go on for hours.
                state.span.end(response.status, state.reason)


async def _with_count(request: web.Request, visitor: Visitor, services: NewServices) -> Visitor:
    """Returns a visitor with the number of approvals that wait, which a page shows; events are no page."""
    if visitor.user is None or not shows_navigation(visitor.user) or _is_for_events(request):
        return visitor
    return replace(visitor, waiting=await count_waiting(visitor.user, services(visitor.actor)))


def _is_for_events(request: web.Request) -> bool:
    return _EVENTS in request.headers.get("Accept", "")


def _is_automatic(request: web.Request) -> bool:
    """Returns whether an open page sent the request by itself: it is no use of the session."""
    return request.path == WAITING or _is_for_events(request) or request.headers.get(REFRESH) == AUTOMATIC


def _add(app: web.Application, route: VisitorRoute | Page, handler: _Handler) -> None:
    app.router.add_route(route.method, route.path, handler)
    if route.method == "GET":
        app.router.add_route("HEAD", route.path, handler)
