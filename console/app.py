"""The console's web application, in the running event loop."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Final

from aiohttp import web

from console import metrics
from console.account.ended_sessions import EndedSessions
from console.account.own_passkeys import ADD, CODES, REMOVE, OwnPasskeys
from console.account.preferences import PREFERENCES, Preferences
from console.account.provider_sign_in import PROVIDER, RETURN, ProviderSignIn
from console.account.second_factor import PASSKEYS, PASSWORD, SECOND, SIGN_IN, SecondFactor
from console.account.sign_in import SIGNED_OUT, Account, sign_in_address
from console.account.sign_in_queue import SignInQueue
from console.forms.multipart import has_files, read_file_form
from console.forms.repeats import Repeats, form_key
from console.forms.urlencoded import TOKEN, Form, check_sender, read_form
from console.http.connections import ConsoleServer
from console.http.downloads import Downloads
from console.http.event_streams import EventStreams
from console.http.headers import NO_STORE, common_headers
from console.http.hosts import check_host
from console.http.static_files import ROUTE, STATIC, StaticFiles
from console.pages import all_pages
from console.rendering.templates import Rendering
from console.request_log import ConsoleRequestLog
from console.responses import REFRESH, Responses
from console.services import ChannelServices
from console.sessions import SIGN_OUT, NewServices, Sessions, Visitor
from console.settings import ConsoleSettings
from console.tracing import PageSpan
from console.visit import Download, EventStream, Page, Redirect, Services, TryCall, View, Visit
from contract.channel import Channel
from contract.channel.traced import traced
from contract.refusals import Refusal
from contract.request_ids import request_id_from
from telemetry import Family, tracing
from telemetry.request_lines import ABORTED, CLIENT_GONE

_LOG = logging.getLogger(__name__)
_NOBODY: Final = Visitor("")
_WITHOUT_PASSKEY: Final = frozenset({PASSWORD, PASSKEYS, ADD})
_WITHOUT_HANDLER: Final = frozenset({404, 405})

HEALTH: Final = "/healthz"
"""Health check of the process, which is answered under any host name."""

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_VisitorHandler = Callable[[web.Request, Visitor, NewServices], Awaitable[web.StreamResponse]]


@dataclass(slots=True)
class _RequestState:
    """State of a request while it is handled."""

    request_id: str
    visitor: Visitor = _NOBODY
    reason: str = ""
    """The code of a refusal."""
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
        self._pages = tuple(all_pages() if pages is None else pages)
        self._headers = common_headers(https=settings.https)
        self._files = StaticFiles()
        self._sessions = Sessions(settings)
        self._responses = Responses(Rendering(self._files, settings.api_url), self._sessions, self._pages)
        self._queue = SignInQueue()
        shared = (settings, self._sessions, self._responses, self._queue)
        self._account = Account(*shared)
        self._second_factor = SecondFactor(*shared)
        self._passkeys = OwnPasskeys(*shared)
        self._provider = ProviderSignIn(settings, self._sessions, self._responses)
        self._preferences = Preferences(settings, self._sessions, self._responses)
        self._repeats = Repeats()
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

    async def stop(self) -> None:
        """Ends live updates, lets requests under way finish, and closes."""
        self._streams.stop()
        self._queue.close()
        self._provider.stop()
        if self._server is not None:
            await self._server.stop()

    def measured(self) -> list[Family]:
        """Returns its current metrics, and the counters of all consoles in this process; safe in any thread."""
        connected = len(self._server.connections) if self._server is not None else 0
        return [
            metrics.REQUESTS.collect(),
            metrics.CONNECTIONS.with_value(connected),
            metrics.LIVE_UPDATES.with_value(self._streams.count),
        ]

    def _application(self) -> web.Application:
        app = web.Application(middlewares=[self._middleware])
        app.on_response_prepare.append(self._add_headers)
        app.router.add_get(HEALTH, _healthz)
        app.router.add_get(ROUTE, self._files.answer)
        account = self._account
        app.router.add_get(SIGN_IN, self._with_visitor(account.sign_in_form))
        app.router.add_post(SIGN_IN, self._with_visitor(account.sign_in))
        app.router.add_get(SECOND, self._with_visitor(self._second_factor.form))
        app.router.add_post(SECOND, self._with_visitor(self._second_factor.finish))
        app.router.add_get(PROVIDER, self._with_visitor(self._provider.begin))
        app.router.add_get(RETURN, self._with_visitor(self._provider.finish))
        app.router.add_post(SIGN_OUT, self._with_visitor(account.sign_out))
        app.router.add_get(SIGNED_OUT, self._with_visitor(account.signed_out))
        app.router.add_get(PASSWORD, self._signed_in(account.password_form))
        app.router.add_post(PASSWORD, self._signed_in(account.password))
        passkeys = self._passkeys
        app.router.add_get(PASSKEYS, self._signed_in(passkeys.show_list))
        app.router.add_get(ADD, self._signed_in(passkeys.add_form))
        app.router.add_post(ADD, self._signed_in(passkeys.add))
        app.router.add_get(REMOVE, self._signed_in(passkeys.remove_form))
        app.router.add_post(REMOVE, self._signed_in(passkeys.remove))
        app.router.add_get(CODES, self._signed_in(passkeys.codes_form))
        app.router.add_post(CODES, self._signed_in(passkeys.codes))
        app.router.add_get(PREFERENCES, self._signed_in(self._preferences.form))
        app.router.add_post(PREFERENCES, self._signed_in(self._preferences.save))
        for page in self._pages:
            # add_get answers HEAD as well.
            add = app.router.add_get if page.method == "GET" else app.router.add_post
            add(page.path, self._signed_in(partial(self._page, page), page))
        return app

    def _with_visitor(self, handler: _VisitorHandler) -> _Handler:
        """Returns a handler that passes on the visitor whose cookies a request has."""

        async def handle(request: web.Request) -> web.StreamResponse:
            state = request[_STATE]
            services = partial(self._services, state.request_id)
            state.visitor = await self._sessions.visitor(request, services)
            return await handler(request, state.visitor, services)

        return handle

    def _signed_in(self, handler: _VisitorHandler, page: Page | None = None) -> _Handler:
        """Returns a handler, of a page where one is given, for visitors who have signed in; others are asked to."""

        async def handle_signed_in(request: web.Request, visitor: Visitor, services: NewServices) -> web.StreamResponse:
            if visitor.user is None:
                if page is not None and page.method != "GET":
                    return await self._ended.keep(request, page)
                return self._ask_to_sign_in(request, visitor)
            if visitor.user.password_is_temporary and request.path != PASSWORD:
                return self._responses.redirect(visitor, Redirect(PASSWORD))
            if visitor.user.needs_passkey and request.path not in _WITHOUT_PASSKEY:
                return self._responses.redirect(visitor, Redirect(PASSKEYS))
            return await handler(request, visitor, services)

        return self._with_visitor(handle_signed_in)

    def _ask_to_sign_in(self, request: web.Request, visitor: Visitor) -> web.StreamResponse:
        if request.method not in {"GET", "HEAD"}:
            raise web.HTTPUnauthorized
        if request.headers.get("Sec-Fetch-Site") in {"cross-site", "same-site"}:
            # A link on another site: the browser sends the session's cookie only to requests from our own pages.
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
                    request, visitor.secret, self._settings, own_services, page.several
                )
            else:
                form = await read_form(request, visitor.secret, self._settings, page.several)
        query = {name: request.query.getone(name) for name in request.query}
        names, refresh = dict(request.match_info), REFRESH in request.headers
        visit = Visit(user, own_services, names, query, form, refused, refresh, try_call=self._try_call)
        if page.method == "GET":
            result = await page.answer(visit)
        else:
            key = form_key(visitor.secret, request.path_qs, request[TOKEN], form)
            result = await self._repeats.once(key, partial(page.answer, visit))
        if isinstance(result, EventStream):
            session_lasts = partial(self._session_lasts, request, visitor, services)
            return await self._streams.send(request, visitor.secret, result.events, session_lasts)
        if isinstance(result, Download):
            return await self._downloads.send(request, visitor.secret, result)
        if isinstance(result, Redirect):
            return self._responses.redirect(visitor, result)
        return self._ended.view(request, visitor, result)

    async def _session_lasts(self, request: web.Request, visitor: Visitor, services: NewServices) -> bool:
        """Returns whether the session still exists and allows the same."""
        try:
            now = await self._sessions.visitor(request, services)
        except Refusal:
            # While the backend cannot be reached, the session is assumed to last.
            return True
        before = visitor.user
        if now.user is None or before is None:
            return False
        return (now.user.role, now.user.decides_for) == (before.role, before.decides_for)

    def _services(self, request_id: str, actor: str) -> Services:
        return ChannelServices(self._channel, actor, request_id, self._settings.backend_seconds)

    @web.middleware
    async def _middleware(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Handles a request and counts it; raises nothing but a cancellation."""
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
        metrics.count(request, response.status)
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
        """Finds out who asked for what does not exist, so that they stay within the frame of the pages."""
        if state.visitor is _NOBODY:
            with suppress(Refusal):
                state.visitor = await self._sessions.visitor(request, partial(self._services, state.request_id))

    async def _add_headers(self, request: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(self._headers)
        response.headers.setdefault("Cache-Control", NO_STORE)
        state = request.get(_STATE)
        if state is not None:
            response.headers["X-Request-Id"] = state.request_id
            if state.span is not None:
                # Of a download or of live updates, which may go on for hours.
                state.span.end(response.status, state.reason)


async def _healthz(_: web.Request) -> web.Response:
    return web.Response(text="ok")
