"""Rules of webhooks: events and states by their names in tables, and the addresses that messages may be sent to."""

import ipaddress
import socket
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from backend.storage.database import run_of

ANNOUNCED: Final = "webhooks"
"""Name of the announcement to the deliverers of all processes that a message may be due."""


class WebhookEvent(StrEnum):
    """A change of a run, or a decision on a schedule; the value is the `type` of its message."""

    RUN_ENDED = "run.ended"
    RUN_WAITING = "run.waiting_for_approval"
    RUN_ERASED = "run.erased"
    APPROVAL_REMINDED = "approval.reminded"
    APPROVAL_EXPIRED = "approval.expired"
    SCHEDULE_SKIPPED = "schedule.skipped"
    SCHEDULE_FAILED = "schedule.failed"


RUN_EVENTS: Final = (
    WebhookEvent.RUN_ENDED,
    WebhookEvent.RUN_WAITING,
    WebhookEvent.RUN_ERASED,
    WebhookEvent.APPROVAL_REMINDED,
    WebhookEvent.APPROVAL_EXPIRED,
)
"""Events of a key's own runs: the default events of a webhook."""


class DeliveryState(StrEnum):
    """State of a message to one webhook."""

    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"


class PausedReason(StrEnum):
    """Reason why a webhook is paused."""

    REQUESTED = "requested"
    UNREACHABLE = "unreachable"
    GONE = "gone"


class DeliveryOutcome(NamedTuple):
    """Outcome of an attempt: the HTTP status, None without an answer, and a word for the failure, None for success."""

    status: int | None
    error: str | None


Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
# Other addresses that Python calls global are unallocated, deprecated, or IPv4 addresses behind a translator.
_ALLOCATED: Final = ipaddress.IPv6Network("2000::/3")


def delivery_lock(message_id: str, run_id: str | None) -> str:
    """Returns the lock key of changes of a delivery: the key of its run, so that messages of a run stay in order."""
    return f"message {message_id}" if run_id is None else run_of(run_id)


def networks(ranges: Iterable[str]) -> tuple[Network, ...]:
    """Returns CIDR ranges as networks."""
    return tuple(ipaddress.ip_network(each) for each in ranges)


def is_allowed(address: Address, private: Sequence[Network]) -> bool:
    """Returns whether a connection to this address may be made."""
    reached = _embedded_ipv4(address)
    return is_private(reached, private) or _is_public(reached)


def is_private(address: Address, private: Sequence[Network]) -> bool:
    """Returns whether the address lies in one of the private networks that the settings allow."""
    reached = _embedded_ipv4(address)
    return any(reached in network for network in private)


def _is_public(address: Address) -> bool:
    if isinstance(address, ipaddress.IPv6Address) and address not in _ALLOCATED:
        return False
    return address.is_global and not address.is_multicast


def url_problems(text: str, private: Sequence[Network]) -> Iterator[str]:
    """Yields the problems of a webhook's address; names are resolved at each connection, not here."""
    # Parsed as the connecting client does; imported here, because commands that start a backend do not need it.
    from yarl import URL

    try:
        url = URL(text)
        host, port = url.host, url.port
    except ValueError:
        yield "must be an address such as https://example.org/hooks"
        return
    if not host or not port:
        yield "must be an address with a host, such as https://example.org/hooks"
        return
    if url.user is not None or url.password is not None:
        yield "must not hold a user or a password"
    if url.raw_fragment:
        yield "must not hold a fragment"
    if url.scheme == "http" and not private:
        yield "must begin with https://; http is for the networks of webhooks.private_networks"
    address = _literal(host)
    if address is not None and not is_allowed(address, private):
        yield "must be a public address, or one in the networks of webhooks.private_networks"


def _literal(host: str) -> Address | None:
    """Returns the IP address that a host spells, also in a short form such as `127.1`; None for a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        pass
    try:
        return ipaddress.IPv4Address(socket.inet_aton(host))
    except (OSError, UnicodeError):
        return None


def _embedded_ipv4(address: Address) -> Address:
    """Returns the IPv4 address embedded in an IPv6 address (NAT64, mapped, 6to4), or else the address itself."""
    if isinstance(address, ipaddress.IPv6Address):
        if address in _NAT64:
            return ipaddress.IPv4Address(address.packed[-4:])
        return address.ipv4_mapped or address.sixtofour or address
    return address
