"""Which calls are let through: the order of checks, as one table. (SPEC.md, Order of checks)."""

from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from edge.admission.keyring import Key, Keyring
from edge.admission.rate_limit import RateLimiter, Window
from edge.admission.source_address import AddressReader
from edge.codec.json_body import parse_json_body
from edge.errors import Refusal
from edge.http.cors import preflight_headers
from edge.http.cpu_gate import CpuGate
from edge.http.request import HttpRequest
from edge.http.response import Answer
from edge.routes import Match, RouteTable
from workflow_api.v1.options_pb2 import ACCESS_PUBLIC, ACCESS_SCOPE

_LIGHT_BYTES: Final = 16_384
"""A longer body may take the time of many calls to parse: it waits its turn."""


class AdmissionDeps(NamedTuple):
    """What the checks look things up in."""

    routes: RouteTable
    keyring: Keyring
    limiter: RateLimiter
    address_of: AddressReader
    body_seconds: float
    cpu_gate: CpuGate


class Call:
    """One call on its way through the checks, which leave here what they find out."""

    __slots__ = ("_key", "_match", "address", "body", "deps", "now_ms", "raw_body", "request", "window")

    def __init__(self, request: HttpRequest, deps: AdmissionDeps, now_ms: int) -> None:
        self.request = request
        self.deps = deps
        self.now_ms = now_ms
        self.address = deps.address_of(request)
        self.raw_body: bytes | None = None
        self.body: Any = None
        self.window: Window | None = None
        self._match: Match | None = None
        self._key: Key | None = None

    @property
    def match(self) -> Match:
        """The route and its path parameters, once the path is known to exist."""
        assert self._match is not None
        return self._match

    @property
    def key(self) -> Key:
        """The calling key, once it is identified."""
        assert self._key is not None
        return self._key

    @property
    def key_id(self) -> str:
        """The calling key's id; empty when no key was identified."""
        return self._key.key_id if self._key else ""

    @property
    def template(self) -> str:
        """The route's path template; empty while no route is found, as for a call that is refused before."""
        return self._match.route.template if self._match else ""


class PreflightAnswered(Exception):  # noqa: N818 - ends the checks, and is no error
    """Carries the answer to a browser's preflight."""

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self.answer = answer


Test = Callable[[Call], Awaitable[None] | None]


def body_is_bounded(call: Call) -> Awaitable[None] | None:
    """Judge the declared length before a byte is read; a body without one is read until it passes the bound."""
    request = call.request
    request.check_framing()
    request.invite_body()
    return _read_body(call) if request.chunked else None


def is_no_preflight(call: Call) -> None:
    """Answer a preflight on any path, before credentials. (SPEC.md, Browser callers)."""
    request = call.request
    if request.method == "OPTIONS" and request.origin:
        asked = request.header("Access-Control-Request-Method"), request.header("Access-Control-Request-Headers")
        raise PreflightAnswered(Answer(204, headers=preflight_headers(*asked)))


def path_and_method_exist(call: Call) -> None:
    """Find the route by the raw path."""
    call._match = call.deps.routes.match(call.request.method, call.request.path)  # noqa: SLF001 - the checks fill it


def body_is_json(call: Call) -> Awaitable[None] | None:
    """Parse the body on the routes that take one."""
    return _parse_body(call) if call.match.route.takes_body else None


def keys_are_served(call: Call) -> None:
    """Refuse every key while the deployment takes none."""
    reason = call.deps.keyring.closed_because()
    if reason is not None:
        raise Refusal("deployment_updating", details={"reason": reason})


def credentials_are_right(call: Call) -> None:
    """Identify the key; a 401 never says what was wrong."""
    header_values = call.request.header_values
    key = call.deps.keyring.identify(
        header_values("Authorization"), header_values("X-Service-Key-External-Id"), call.now_ms
    )
    if key is None:
        raise Refusal("unauthorized")
    call._key = key  # noqa: SLF001 - the checks fill it


def source_is_allowed(call: Call) -> None:
    """Hold the source address against the key's allow-list."""
    if not call.key.allows_address(call.address):
        raise Refusal("forbidden", "The source address is outside the key's allow-list.")


def hour_is_allowed(call: Call) -> None:
    """Hold the UTC hour against the key's allowed hours."""
    hours = call.key.outside_hours(call.now_ms)
    if hours is not None:
        start, end = hours
        raise Refusal("outside_time_window", details={"valid_hours_utc": {"start_hour": start, "end_hour": end}})


async def minute_is_not_full(call: Call) -> None:
    """Count the call, and refuse it when the key's minute is full."""
    key = call.key
    window = call.window = await call.deps.limiter.count(key.key_id, key.rate_limit, call.now_ms)
    if window.full:
        wait = window.reset_seconds
        seconds = "1 second" if wait == 1 else f"{wait} seconds"
        raise Refusal(
            "rate_limited",
            f"The limit of {window.limit} requests per minute is full; wait {seconds}.",
            retry_after=wait,
        )


def scope_is_granted(call: Call) -> None:
    """Hold the route's scope against the key's."""
    route = call.match.route
    if route.access == ACCESS_SCOPE and route.scope not in call.key.scopes:
        raise Refusal("forbidden", "The key lacks the scope that this route requires.")


class Check(NamedTuple):
    """One row of the order of checks: from order 1 on only for calls that need a key."""

    order: int
    test: Test


CHECKS: Final = (
    Check(0, body_is_bounded),
    Check(0, is_no_preflight),
    Check(0, path_and_method_exist),
    Check(0, body_is_json),
    Check(1, keys_are_served),
    Check(2, credentials_are_right),
    Check(3, source_is_allowed),
    Check(3, hour_is_allowed),
    Check(4, minute_is_not_full),
    Check(5, scope_is_granted),
)
"""Every check, first failure stops. Validation and the domain come after the last."""

_BEFORE_THE_KEY: Final = tuple(check.test for check in CHECKS if check.order == 0)
_WITH_THE_KEY: Final = tuple(check.test for check in CHECKS if check.order > 0)


async def admit(call: Call) -> None:
    """Run the checks.

    Raises:
        Refusal: the first check that fails.
        PreflightAnswered: the call is a preflight.
    """
    for test in _BEFORE_THE_KEY:
        pending = test(call)
        if pending is not None:
            await pending
    if call.match.route.access == ACCESS_PUBLIC:
        return
    for test in _WITH_THE_KEY:
        pending = test(call)
        if pending is not None:
            await pending


async def _read_body(call: Call) -> None:
    call.raw_body = await call.request.read_body(call.deps.body_seconds)


async def _parse_body(call: Call) -> None:
    call.request.check_encoding()
    if call.raw_body is None:
        await _read_body(call)
    body, call.raw_body = call.raw_body or b"", None
    if len(body) <= _LIGHT_BYTES:
        call.body = parse_json_body(body)
        return
    async with call.deps.cpu_gate:
        call.body = parse_json_body(body)
