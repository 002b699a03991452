"""One call on its way through admission."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from contract.addresses import client_address_header
from contract.ids import RUN_ID
from contract.routes import RouteMatch, RouteTable
from edge.admission.keyring import Key, Keyring
from edge.admission.parsing import BodyParser
from edge.admission.rate_limit import RateLimiter, RateWindow
from edge.http.request import HttpRequest

AddressReader = Callable[[HttpRequest], str]


class AdmissionDeps(NamedTuple):
    """Dependencies of the checks."""

    routes: RouteTable
    keyring: Keyring
    limiter: RateLimiter
    address_of: AddressReader
    body_seconds: float
    parsing: BodyParser
    clock: Callable[[], int]


class Call:
    """A request with the results of the checks that it has passed."""

    __slots__ = (
        "address",
        "body",
        "deps",
        "key",
        "key_id",
        "match",
        "now_ms",
        "raw_body",
        "request",
        "started_run_id",
        "template",
        "waited",
        "window",
    )

    match: RouteMatch
    """The route and its path parameters; set once the path is known to exist."""
    key: Key
    """The calling key; set once it is identified."""

    def __init__(self, request: HttpRequest, deps: AdmissionDeps, now_ms: int) -> None:
        self.request = request
        self.deps = deps
        self.now_ms = now_ms
        self.address = deps.address_of(request)
        self.raw_body: bytes | None = None
        self.body: Any = None
        self.window: RateWindow | None = None
        self.waited = 0.0
        """Seconds for which the answer was held."""
        self.template = ""
        """The route's path template; empty until a route is found."""
        self.key_id = ""
        """The calling key's id; empty until a key is identified."""
        self.started_run_id = ""
        """Id of the run that this call, or an earlier call with its idempotency key, started."""

    @property
    def run_id(self) -> str:
        """The id of the run that the call is about, for its log line; empty where there is none in a run's form."""
        if not self.template:
            return ""
        run_id = self.started_run_id or self.match.path_params.get("run_id", "")
        return run_id if run_id and RUN_ID.fullmatch(run_id) else ""

    def key_unchanged(self, now_ms: int) -> bool:
        """Returns whether the admitted key is unchanged, and neither it, its secret nor its hours have ended since."""
        keyring, key = self.deps.keyring, self.key
        return (
            keyring.has(key)
            and keyring.closed_reason() is None
            and now_ms < key.expires_ms
            and not self.now_ms < key.previous_until_ms <= now_ms
            and key.outside_hours(now_ms) is None
        )


def address_reader(setting: str) -> AddressReader:
    """Returns the function that reads the source address of a request, as text; empty when it is unknown.

    Raises:
        ValueError: the setting is none of `peer`, `load_balancer` and `header:<Name>`.
    """
    name = client_address_header(setting)
    if name is not None:
        return lambda request: _single(request.header_values(name))
    return _peer if setting == "peer" else _load_balancer


def _peer(request: HttpRequest) -> str:
    peer = request.connection.peername
    return peer[0] if isinstance(peer, tuple) else ""


def _load_balancer(request: HttpRequest) -> str:
    # The load balancer appends the address it saw; the caller may have sent all others.
    forwarded = request.header_values("X-Forwarded-For")
    return forwarded[-1].rpartition(",")[2].strip() if forwarded else ""


def _single(values: Sequence[str]) -> str:
    return values[0].strip() if len(values) == 1 else ""
