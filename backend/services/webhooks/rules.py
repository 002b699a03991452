"""Rules of webhooks: events and states as tables spell them, and the addresses that messages may be sent to."""

import ipaddress
import socket
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from backend.storage.database import run_of

ANNOUNCED: Final = "webhooks"
"""Name that a change announces to the deliverers of all processes if a message may be due with it."""


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
"""Events of a key's own runs, which a webhook has unless others are chosen."""


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
    """The status of an answer, and a word for the failure; each None if there was none."""

    status: int | None
    error: str | None


Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
# Other addresses that Python calls global are unallocated, deprecated, or IPv4 addresses behind a translator.
_ALLOCATED: Final = ipaddress.IPv6Network("2000::/3")


def lock_of(message_id: str, run_id: str | None) -> str:
    """Returns the lock key of changes of a delivery: the lock key of its run, whose messages stay in order."""
    return f"message {message_id}" if run_id is None else run_of(run_id)


def networks(ranges: Iterable[str]) -> tuple[Network, ...]:
    """Returns CIDR ranges as networks."""
    return tuple(ipaddress.ip_network(each) for each in ranges)


def is_allowed(address: Address, private: Sequence[Network]) -> bool:
    """Returns whether a connection to this address may be made."""
    reached = _reached(address)
    return is_private(reached, private) or _is_public(reached)


def is_private(address: Address, private: Sequence[Network]) -> bool:
    """Returns whether the address lies in one of the private networks that the settings allow."""
    reached = _reached(address)
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
    """Returns the address of a literal host, short and numeric forms such as `127.1` included, else None."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        pass
    try:
        return ipaddress.IPv4Address(socket.inet_aton(host))
    except (OSError, UnicodeError):
        return None


def _reached(address: Address) -> Address:
    """Returns the IPv4 address that an IPv6 address stands for, else the address itself."""
    if isinstance(address, ipaddress.IPv6Address):
        if address in _NAT64:
            return ipaddress.IPv4Address(address.packed[-4:])
        return address.ipv4_mapped or address.sixtofour or address
    return address
