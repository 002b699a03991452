"""One call on its way through admission."""

from collections.abc import Callable
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
    clock: Callable[[], int]


class Call:
    """A request and what the checks have found out about it so far."""

    __slots__ = ("_key", "_match", "address", "body", "deps", "now_ms", "raw_body", "request", "waited", "window")

    def __init__(self, request: HttpRequest, deps: AdmissionDeps, now_ms: int) -> None:
        self.request = request
        self.deps = deps
        self.now_ms = now_ms
        self.address = deps.address_of(request)
        self.raw_body: bytes | None = None
        self.body: Any = None
        self.window: Window | None = None
        self.waited = 0.0
        """Seconds for which the answer was held."""
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

    def key_unchanged(self, now_ms: int) -> bool:
        """Returns whether the key is the one that was admitted, and nothing of it has ended since."""
        keyring, key = self.deps.keyring, self.key
        return (
            keyring.has(key)
            and keyring.closed_because() is None
            and now_ms < key.expires_ms
            and not self.now_ms < key.previous_until_ms <= now_ms
            and key.outside_hours(now_ms) is None
        )

    @property
    def template(self) -> str:
        """The route's path template; empty while no route is found."""
        return self._match.route.template if self._match else ""
