"""Builds the filter of system calls that every isolated step runs under.

It takes away what no step needs and what the other means of a layer do not cover; it is no list of what is allowed.
"""

import errno
from collections.abc import Iterable
from typing import Final

from backend.confined.bpf import Check, Rule, UnsupportedProcessorError, assemble
from backend.confined.syscall_rules import KERNEL, NO_ATTRIBUTES, NO_SIGNALS, SHARED_USER
from backend.sandbox.layer import SandboxUnavailableError
from backend.sandbox.limits import Network

_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_SOCK_STREAM, _SOCK_PACKET, _SOCK_TYPE = 1, 10, 0xF
_NETLINK_ROUTE: Final = 0

_STREAM_PAIRS: Final = Rule("socketpair", errno.EACCES, (Check(0, (_AF_UNIX,)), Check(1, (_SOCK_STREAM,), _SOCK_TYPE)))
"""A pair of datagram sockets could send to any name, so a pair is one of streams."""

_NO_SOCKETS: Final = (
    Rule("socket connect bind listen accept accept4", errno.EACCES),
    _STREAM_PAIRS,
)


def _sockets(*families: int) -> Rule:
    """Sockets of these families only, and of netlink what lists addresses and routes, as name resolution does.

    A family such as AF_VSOCK belongs to no network namespace. SOCK_PACKET turns an internet socket into AF_PACKET.
    """
    return Rule(
        "socket",
        errno.EACCES,
        (Check(0, families), Check(1, (_SOCK_PACKET,), _SOCK_TYPE, wanted=False)),
        alternative=(Check(0, (_AF_NETLINK,)), Check(2, (_NETLINK_ROUTE,))),
    )


_OWN_NETWORK_SOCKETS: Final = (
    _sockets(_AF_UNIX, _AF_INET, _AF_INET6),
    Rule("socketpair", errno.EACCES, (Check(0, (_AF_UNIX,)),)),
)
"""In a network namespace of its own a step reaches nothing by these."""

_INTERNET_SOCKETS: Final = (_sockets(_AF_INET, _AF_INET6), _STREAM_PAIRS)
"""The machine's services on Unix sockets are not part of the network."""

# Programs that set a file's time to now make the file when that fails.
_NOT_NOW: Final = (
    Rule("utime utimes", unless=(Check(1, (0,), wanted=False),)),
    Rule("utimensat futimesat", unless=(Check(2, (0,), wanted=False),)),
)


def namespace_filter(network: Network) -> bytes:
    """The filter for a step in namespaces of its own; the network's is its own too unless `network` is full."""
    return _assemble((*KERNEL, *(_INTERNET_SOCKETS if network == "full" else _OWN_NETWORK_SOCKETS)))


def landlock_filter(network: Network, *, own_user: bool, scoped_signals: bool) -> bytes:
    """The filter for a step that Landlock holds, which shares what namespaces would keep apart.

    Without a user of its own the step shares the service's: it may then change no file's mode, owner or times, and
    sends no signals where Landlock does not hold those back.
    """
    rules = [*KERNEL, *NO_ATTRIBUTES, *(_INTERNET_SOCKETS if network == "full" else _NO_SOCKETS)]
    rules += _NOT_NOW if own_user else SHARED_USER
    if not own_user and not scoped_signals:
        rules += NO_SIGNALS
    return _assemble(rules)


def _assemble(rules: Iterable[Rule]) -> bytes:
    try:
        return assemble(rules)
    except UnsupportedProcessorError as error:
        raise SandboxUnavailableError(str(error)) from None
