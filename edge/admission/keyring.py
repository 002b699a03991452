"""Copy of the deployment's keys, precomputed for checks without I/O (contract 8)."""

import logging
import re
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from hmac import compare_digest
from ipaddress import IPv4Network, IPv6Network, ip_network
from secrets import token_bytes
from time import monotonic
from typing import Final

from contract.addresses import parse_address
from contract.times import milliseconds_of
from workflow_api.v1.edge_pb2 import KeyMirror, MirroredKey

_BEARER: Final = re.compile(r"(?i:bearer) +(ak_[A-Za-z0-9]{6,64})\.([A-Za-z0-9_-]{16,256})", re.ASCII)
_EXTERNAL_ID: Final = re.compile(r"[A-Za-z0-9_-]{8,256}")
_HOUR_MS: Final = 3_600_000
_MAPPED: Final = IPv6Network("::ffff:0:0/96")

_LOG = logging.getLogger(__name__)


class AddressRanges:
    """An allow-list as integer ranges."""

    __slots__ = ("_ranges",)

    def __init__(self, cidrs: Iterable[str]) -> None:
        """Takes CIDR ranges; an invalid one allows nobody and is logged."""
        self._ranges = [read for cidr in cidrs if (read := _range(cidr)) is not None]

    def allow(self, text: str) -> bool:
        """Returns whether an address is in the ranges; an invalid address never is."""
        address = parse_address(text)
        if address is None:
            return False
        version, number = address.version, int(address)
        return any(of == version and first <= number <= last for of, first, last in self._ranges)


def _range(cidr: str) -> tuple[int, int, int] | None:
    try:
        network: IPv4Network | IPv6Network = ip_network(cidr, strict=False)
    except ValueError:
        _LOG.error("An allow-list holds %r, which is not a CIDR range and matches no address", cidr)
        return None
    first, last = int(network.network_address), int(network.broadcast_address)
    if isinstance(network, IPv6Network) and network.subnet_of(_MAPPED):
        return 4, first & 0xFFFF_FFFF, last & 0xFFFF_FFFF
    return network.version, first, last


class Key:
    """One key, prepared for the checks."""

    __slots__ = (
        "_hours",
        "_ranges",
        "expires_ms",
        "external",
        "key_id",
        "previous",
        "previous_until_ms",
        "rate_limit",
        "revoked",
        "scopes",
        "secret",
        "usable",
    )

    def __init__(self, mirrored: MirroredKey, deployment_id: str) -> None:
        self.key_id = mirrored.key_id
        self.secret = mirrored.secret_sha256
        # A hash that no secret has stands in for a missing one, so that every key costs the same comparisons.
        self.previous = mirrored.previous_secret_sha256 or _NO_HASH
        self.previous_until_ms = milliseconds_of(mirrored.previous_secret_expires_at)
        self.external = mirrored.external_id_sha256
        self.expires_ms = milliseconds_of(mirrored.expires_at)
        self.revoked = mirrored.revoked
        self.usable = not mirrored.revoked and mirrored.deployment_id == deployment_id
        self.scopes = frozenset(mirrored.scopes)
        self.rate_limit = mirrored.rate_limit_rpm
        self._ranges = AddressRanges(mirrored.source_allow_list) if mirrored.source_allow_list else None
        hours = mirrored.allowed_hours
        self._hours = (hours.start_hour, hours.end_hour) if mirrored.HasField("allowed_hours") else None

    def allows_address(self, address: str) -> bool:
        """Returns whether the key may be used from an address."""
        return self._ranges is None or self._ranges.allow(address)

    def outside_hours(self, now_ms: int) -> tuple[int, int] | None:
        """Returns the allowed (start_hour, end_hour) when the UTC hour is outside of them, else None."""
        if self._hours is None:
            return None
        start, end = self._hours
        hour = now_ms // _HOUR_MS % 24
        inside = start <= hour < end if start <= end else hour >= start or hour < end
        return None if inside else self._hours


_NO_HASH: Final = token_bytes(32)
# Stands in for every unknown key id, so that it costs the same time as a known one.
_NOBODY: Final = Key(MirroredKey(secret_sha256=_NO_HASH, external_id_sha256=_NO_HASH, revoked=True), "")


class Keyring:
    """This edge's copy of the keys and of the deployment's flags."""

    def __init__(self, limit_seconds: float, now: Callable[[], float] = monotonic) -> None:
        """Takes the age in seconds from which the copy is not used any more, and a monotonic clock."""
        self.now = now
        self._limit = limit_seconds
        self._keys: dict[str, Key] = {}
        self._prepared: dict[tuple[str, bytes], Key] = {}
        self._copied_at = float("-inf")
        self._revision = -1
        self.deployment_id = ""
        self.governed = False
        self.enabled = False
        self._any_key_ever = False

    @property
    def age(self) -> float:
        """Seconds since the copy was known to be current."""
        return self.now() - self._copied_at

    def take(self, mirror: KeyMirror, copied_at: float) -> bool:
        """Replaces the copy, or confirms it; returns False if a copy is confirmed that this keyring does not have.

        `copied_at` is the time by `now`, in seconds, at which the mirror was known to be current.
        """
        if mirror.unchanged:
            if mirror.revision != self._revision:
                return False
        else:
            self.deployment_id = mirror.deployment_id
            self.governed = mirror.governed
            self.enabled = mirror.api_enabled
            self._any_key_ever = mirror.any_key_ever
            self._replace(mirror)
            self._revision = mirror.revision
        self._copied_at = copied_at
        return True

    def _replace(self, mirror: KeyMirror) -> None:
        # A change concerns few keys: all others are reused.
        deployment_id = mirror.deployment_id
        forms = [(deployment_id, key.SerializeToString()) for key in mirror.keys]
        self._prepared = {
            form: self._prepared.get(form) or Key(key, deployment_id)
            for form, key in zip(forms, mirror.keys, strict=True)
        }
        self._keys = {key.key_id: key for key in self._prepared.values()}

    def closed_reason(self) -> str | None:
        """Returns the `details.reason` of the 503 while no key is served; None when keys are served."""
        if self.now() - self._copied_at > self._limit:
            return "keys_table_unreachable"
        if not self.governed:
            return "not_governed"
        if not (self.enabled and self._any_key_ever):
            return "not_enabled"
        return None

    def has(self, key: Key) -> bool:
        """Returns whether the copy still has this key, unchanged."""
        return self._keys.get(key.key_id) is key

    def refused(self, authorization: Sequence[str], now_ms: int) -> tuple[str, str]:
        """Returns the id of the key that refused credentials name, and why they were refused; empty for an unknown key.

        For the log alone, after the answer: neither an answer nor its duration may depend on the reason.
        """
        bearer = _BEARER.fullmatch(authorization[0]) if len(authorization) == 1 else None
        key = None if bearer is None else self._keys.get(bearer[1])
        if key is None:
            return "", ""
        if key.revoked:
            return key.key_id, "revoked"
        return key.key_id, "expired" if now_ms >= key.expires_ms else "wrong_credentials"

    def identify(self, authorization: Sequence[str], external_id: Sequence[str], now_ms: int) -> Key | None:
        """Returns the key that both credentials belong to, else None, in constant time."""
        if len(authorization) != 1 or len(external_id) != 1:
            return None
        bearer = _BEARER.fullmatch(authorization[0])
        if bearer is None or _EXTERNAL_ID.fullmatch(external_id[0]) is None:
            return None
        key = self._keys.get(bearer[1], _NOBODY)
        secret = sha256(bearer[2].encode()).digest()
        current = compare_digest(secret, key.secret)
        previous = compare_digest(secret, key.previous) & (now_ms < key.previous_until_ms)
        external = compare_digest(sha256(external_id[0].encode()).digest(), key.external)
        valid = (current | previous) & external & key.usable & (now_ms < key.expires_ms)
        return key if valid else None
