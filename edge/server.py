"""The edge: answers HTTP requests by calls of the gRPC services."""

import logging
from collections.abc import Callable
from time import perf_counter, time
from typing import Final

from contract.addresses import plain_address
from contract.channel import Channel
from contract.channel.traced import traced
from contract.connections import Timeouts
from contract.refusals import Refusal
from contract.routes import BASE, RouteTable
from edge import metrics
from edge.admission.call import AdmissionDeps, Call, address_reader
from edge.admission.checks import PreflightAnswer, admit
from edge.admission.key_mirror import KeyMirrorFollower
from edge.admission.keyring import Keyring
from edge.admission.parsing import BodyParser
from edge.admission.rate_limit import LocalRateLimiter, RateLimiter, RateWindow
from edge.dispatch import Dispatcher, codecs_of
from edge.http.listener import Listener, listening_sockets
from edge.http.request import HttpRequest
from edge.http.response import Answer, refused
from edge.http.server import HttpLimits, HttpServer
from edge.openapi.pages import Pages
from edge.settings import EdgeSettings
from edge.tracing import RequestTracing
from edge.usage import UsageRecorder, counted_by_key
from edge.waiting.follower import RunChangesFollower
from telemetry import Family, tracing
from telemetry.requests import OTHER, method_of

_UNDER_BASE: Final = BASE + "/"

_LOG = logging.getLogger(__name__)


def system_clock() -> int:
    """Returns the time in milliseconds since the epoch, UTC."""
    return int(time() * 1000)


class Edge:
    """One HTTP server in front of the services, in the running event loop."""

    def __init__(
        self,
        settings: EdgeSettings,
        channel: Channel,
        clock: Callable[[], int] = system_clock,
        limiter: RateLimiter | None = None,
    ) -> None:
        self.port = settings.port
        self._settings = settings
        self._clock = clock
        recording = tracing.active()
        continues = settings.traceparent == "continue"
        self._tracing = None if recording is None else RequestTracing(recording, continues=continues)
        channel = traced(channel)
        keyring = Keyring(settings.mirror_limit_seconds)
        self._follower = KeyMirrorFollower(channel, keyring, settings)
        self._usage = UsageRecorder(channel, settings, clock)
        self.changes = RunChangesFollower(channel, settings, clock)
        routes = RouteTable()
        self._dispatcher = Dispatcher(channel, keyring, settings, self.changes, codecs_of(routes.routes))
        self._deps = AdmissionDeps(
            routes=routes,
            keyring=keyring,
            limiter=limiter or LocalRateLimiter(),
            address_of=address_reader(settings.client_address),
            body_seconds=settings.body_seconds,
            parsing=BodyParser(),
            clock=clock,
        )
        self._pages = Pages(settings.app_domain)
        self.http: HttpServer | None = None
        self._listener: Listener | None = None

    async def start(self) -> None:
        """Fetches the keys, as far as the backend can be reached, and listens."""
        await self._follower.start()
        self._usage.start()
        settings = self._settings
        http = self.http = HttpServer(
            self._handle if self._tracing is None else self._tracing.around(self._handle),
            HttpLimits(
                connections=settings.connections,
                buffer_bytes=settings.buffer_mb * 1_000_000,
                timeouts=Timeouts(settings.idle_seconds, settings.head_seconds, settings.stall_seconds),
            ),
            self._refused_key,
        )
        self._listener = Listener(http, listening_sockets(settings.host, settings.port))
        self.port = self._listener.port

    async def stop(self) -> None:
        """Stops listening, lets calls under way end and sends the remaining usage records."""
        # Held calls are answered with the present state, and go on at another edge.
        await self.changes.long_polls.end()
        if self._listener is not None and self.http is not None:
            await self.http.stop(self._listener, self._settings.drain_seconds)
        await self.changes.stop()
        await self._follower.stop()
        await self._usage.stop()
        self._deps.parsing.close()

    def measured(self) -> list[Family]:
        """Returns the metrics of this edge and the counters of its process; callable from any thread."""
        families = metrics.counted()
        families += [metrics.KEYS_AGE.with_value(self._deps.keyring.age), *self._usage.measured()]
        families += self._deps.limiter.measured()
        if self._settings.key_metrics:
            families += counted_by_key()
        families.append(metrics.WAITING.with_value(self.changes.long_polls.count))
        if self.http is not None:
            families += self.http.measured()
        return families

    async def _handle(self, request: HttpRequest) -> Answer:
        """Answers one request; raises nothing but a cancellation."""
        if not (request.path == BASE or request.path.startswith(_UNDER_BASE)):
            return self._pages.answer(request)
        began = perf_counter()
        call = Call(request, self._deps, self._clock())
        reason = ""
        try:
            await admit(call)
            answer = await self._dispatcher.dispatch(call)
        except Refusal as refusal:
            reason = refusal.code
            answer = refused(refusal, request)
        except PreflightAnswer as preflight:
            answer = preflight.answer
        except Exception:  # noqa: BLE001 - the caller learns nothing of a defect
            _LOG.exception("A request failed", extra={"request_id": request.request_id})
            reason = "internal"
            answer = refused(Refusal(reason), request)
        key_id = call.key_id
        if key_id:
            window = self._window_of(call) if call.waited or call.window is None else call.window
            answer.lines = window.header_lines
        self._count(call, answer.status, reason, perf_counter() - began - call.waited)
        request.outcome = (call.template, key_id, reason, call.run_id, call.waited, call.address)
        if self._tracing is not None:
            self._tracing.answered(call, answer.status, reason)
        return answer

    def _refused_key(self, request: HttpRequest) -> tuple[str, str]:
        return self._deps.keyring.refused(request.header_values("Authorization"), self._clock())

    def _window_of(self, call: Call) -> RateWindow:
        """Returns the usage of the calling key, without counting a call that was refused before the rate limit."""
        window, now_ms = call.window, call.now_ms
        if call.waited:
            now_ms = self._clock()
            window = window and window.after((now_ms - call.now_ms) / 1000)
        return window or self._deps.limiter.usage(call.key_id, call.key.rate_limit, now_ms)

    def _count(self, call: Call, status: int, reason: str, seconds: float) -> None:
        """Counts a call, and records its usage if it has a key or was refused; liveness is not recorded."""
        request, route = call.request, call.template
        labels = (route, request.method, status) if route else (OTHER, method_of(request.method), status)
        metrics.REQUESTS.observe(seconds, labels)
        if reason:
            metrics.REFUSALS.add(reason)
        if reason or call.key_id:
            kind = request.method, route.removeprefix(BASE), status, reason
            address, took = plain_address(call.address), int(seconds * 1_000_000)
            self._usage.record((call.now_ms, call.key_id, kind, address, request.request_id, took))
