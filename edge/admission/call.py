"""One call on its way through admission."""

from typing import Any, NamedTuple

from edge.admission.keyring import Key, Keyring
from edge.admission.rate_limit import RateLimiter, Window
from edge.admission.source_address import AddressReader
from edge.http.cpu_gate import CpuGate
from edge.http.request import HttpRequest
from edge.routes import Match, RouteTable


class AdmissionDeps(NamedTuple):
    """Dependencies of the checks."""

    routes: RouteTable
    keyring: Keyring
    limiter: RateLimiter
    address_of: AddressReader
    body_seconds: float
    cpu_gate: CpuGate


class Call:
    """A request and what the checks have found out about it so far."""

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
        """The route and its path parameters; set once the path is known to exist."""
        assert self._match is not None
        return self._match

    @match.setter
    def match(self, match: Match) -> None:
        self._match = match

    @property
    def key(self) -> Key:
        """The calling key; set once it is identified."""
        assert self._key is not None
        return self._key

    @key.setter
    def key(self, key: Key) -> None:
        self._key = key

    @property
    def key_id(self) -> str:
        """The calling key's id; empty when no key was identified."""
        return self._key.key_id if self._key else ""

    @property
    def template(self) -> str:
        """The route's path template; empty while no route is found."""
        return self._match.route.template if self._match else ""
