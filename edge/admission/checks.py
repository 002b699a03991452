"""Order of checks that every call passes (contract 5.1)."""

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from contract.call_trials import CheckName
from contract.refusals import Refusal
from edge.admission.call import Call
from edge.admission.keyring import Key
from edge.admission.rate_limit import RateWindow
from edge.codec.json_body import parse_json_body
from edge.http.response import Answer, preflight_headers
from workflow_api.v1.options_pb2 import ACCESS_PUBLIC, ACCESS_SCOPE


class PreflightAnswer(Exception):  # noqa: N818 - ends the checks, and is no error
    """Raised with the answer to a browser's preflight."""

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self.answer = answer


def bound_body(call: Call) -> Awaitable[None] | None:
    """Refuses a body declared too long before reading it; a body of undeclared length is read up to the bound."""
    request = call.request
    if request.bodiless:
        return None
    request.check_framing()
    request.send_continue()
    return _read_body(call) if request.chunked else None


def answer_preflight(call: Call) -> None:
    """Answers a preflight on any path, before credentials (contract 6.3)."""
    request = call.request
    if request.method == "OPTIONS" and request.origin:
        asked = request.header("Access-Control-Request-Method"), request.header("Access-Control-Request-Headers")
        raise PreflightAnswer(Answer(204, headers=preflight_headers(*asked)))


def match_route(call: Call) -> None:
    """Finds the route by the raw path."""
    match = call.match = call.deps.routes.match(call.request.method, call.request.path)
    call.template = match.route.template


def parse_body(call: Call) -> Awaitable[None] | None:
    """Parses the body on routes with a body."""
    return _parse_body(call) if call.match.route.takes_body else None


def check_keys_served(call: Call) -> None:
    """Refuses every key while the deployment serves none."""
    reason = call.deps.keyring.closed_reason()
    if reason is not None:
        raise Refusal("deployment_updating", details={"reason": reason})


def identify_key(call: Call) -> None:
    """Identifies the key; a 401 never tells which credential was wrong."""
    key = _identified(call)
    if key is None:
        raise Refusal("unauthorized")
    call.key, call.key_id = key, key.key_id


def _identified(call: Call) -> Key | None:
    header_values = call.request.header_values
    return call.deps.keyring.identify(
        header_values("Authorization"), header_values("X-Service-Key-External-Id"), call.now_ms
    )


def check_source(call: Call) -> None:
    """Compares the source address with the key's allow-list."""
    if not call.key.allows_address(call.address):
        raise Refusal("forbidden", "The source address is outside the key's allow-list.")


def check_hour(call: Call) -> None:
    """Compares the UTC hour with the key's allowed hours."""
    hours = call.key.outside_hours(call.now_ms)
    if hours is not None:
        start, end = hours
        raise Refusal("outside_time_window", details={"valid_hours_utc": {"start_hour": start, "end_hour": end}})


def check_rate_limit(call: Call) -> Awaitable[None] | None:
    """Counts the call, and refuses it when the key's minute is full."""
    key = call.key
    # Counts in the present minute, not that of the call's beginning: a slow body would reset the counts of all keys.
    now_ms = call.now_ms if call.request.bodiless else call.deps.clock()
    counted = call.deps.limiter.count(key.key_id, key.rate_limit, now_ms)
    if not isinstance(counted, RateWindow):
        return _check_shared_rate_limit(call, counted)
    call.window = counted
    if counted.used > counted.limit:
        raise _rate_limited(counted)
    return None


async def _check_shared_rate_limit(call: Call, counted: Awaitable[RateWindow]) -> None:
    window = call.window = await counted
    if window.used > window.limit:
        raise _rate_limited(window)


def _rate_limited(window: RateWindow) -> Refusal:
    wait = window.reset_seconds
    seconds = "1 second" if wait == 1 else f"{wait} seconds"
    message = f"The limit of {window.limit} requests per minute is full; wait {seconds}."
    return Refusal("rate_limited", message, retry_after=wait)


def check_scope(call: Call) -> None:
    """Compares the route's scope with the key's scopes."""
    route = call.match.route
    if route.access == ACCESS_SCOPE and route.scope not in call.key.scopes:
        raise Refusal("forbidden", "The key lacks the scope that this route requires.")


class Check(NamedTuple):
    """One row of the order of checks.

    Attributes:
        name: Name of the check in the dry run of a call.
        order: Number in the contract; from 1 on only calls that need a key are checked.
        run: Returns if the check passes and raises otherwise; an awaitable that it returns is awaited.
        refusals: Error codes that the check refuses with.
    """

    name: CheckName
    order: int
    run: Callable[[Call], Awaitable[None] | None]
    refusals: tuple[str, ...]


CHECKS: Final = (
    Check(CheckName.BODY_SIZE, 0, bound_body, ("payload_too_large", "invalid_request", "runtime_unreachable")),
    Check(CheckName.PREFLIGHT, 0, answer_preflight, ()),
    Check(CheckName.ROUTE, 0, match_route, ("not_found", "method_not_allowed")),
    Check(CheckName.BODY_JSON, 0, parse_body, ("invalid_request", "payload_too_large", "runtime_unreachable")),
    Check(CheckName.DEPLOYMENT, 1, check_keys_served, ("deployment_updating",)),
    Check(CheckName.CREDENTIALS, 2, identify_key, ("unauthorized",)),
    Check(CheckName.SOURCE, 3, check_source, ("forbidden",)),
    Check(CheckName.HOUR, 3, check_hour, ("outside_time_window",)),
    Check(CheckName.RATE_LIMIT, 4, check_rate_limit, ("rate_limited",)),
    Check(CheckName.SCOPE, 5, check_scope, ("forbidden",)),
)
"""Every check; the first that fails ends the call. Validation and the domain come after the last."""

_WITHOUT_KEY: Final = tuple(check.run for check in CHECKS if check.order == 0)
_WITH_KEY: Final = tuple(check.run for check in CHECKS if check.order > 0)
# A call counts once against the rate limit, however long it lasts.
_REPEATED: Final = tuple(run for run in _WITH_KEY if run is not check_rate_limit)


async def admit(call: Call) -> None:
    """Runs the checks in their order.

    Raises:
        Refusal: the first check that fails.
        PreflightAnswer: the call is a preflight.
    """
    for run in _WITHOUT_KEY:
        pending = run(call)
        if pending is not None:
            await pending
    if call.match.route.access == ACCESS_PUBLIC:
        return
    for run in _WITH_KEY:
        pending = run(call)
        if pending is not None:
            await pending


def check_again(call: Call, now_ms: int) -> None:
    """Repeats the checks of the key for a call that waits or streams, with the key as it is at `now_ms`.

    Raises:
        Refusal: the first check that fails.
    """
    later = Call(call.request, call.deps, now_ms)
    later.match = call.match
    for run in _REPEATED:
        run(later)
    call.key, call.key_id = later.key, later.key_id


async def _read_body(call: Call) -> None:
    call.raw_body = await call.request.read_body(call.deps.body_seconds)


async def _parse_body(call: Call) -> None:
    call.request.check_encoding()
    if call.raw_body is None:
        await _read_body(call)
    body, call.raw_body = call.raw_body or b"", None
    parsing = call.deps.parsing
    if parsing.fits_inline(body, known=False):
        call.body = parse_json_body(body)
        return
    # A malformed body is refused before a wrong key, but bodies of callers without a key never delay those with one.
    key = _identified(call)
    if key is not None and parsing.fits_inline(body, known=True):
        call.body = parse_json_body(body)
    else:
        call.body = await parsing.parse("" if key is None else key.key_id, call.address, body)
