"""Assembles the filter of system calls of every isolated step.

It refuses calls that no step needs and that the layer does not restrict otherwise; all others are allowed.
"""

import errno
from collections.abc import Iterable
from typing import Final

from backend.isolation.confined.syscall_filter import (
    KERNEL,
    NO_ATTRIBUTES,
    NO_SIGNALS,
    SHARED_USER,
    ArgumentCheck,
    SyscallRule,
    UnsupportedProcessorError,
    assemble,
)
from backend.isolation.sandbox.layer import SandboxUnavailableError
from backend.isolation.sandbox.limits import Network

_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_SOCK_STREAM, _SOCK_PACKET, _SOCK_TYPE = 1, 10, 0xF
_NETLINK_ROUTE: Final = 0

_STREAM_PAIRS: Final = SyscallRule(
    "socketpair", errno.EACCES, (ArgumentCheck(0, (_AF_UNIX,)), ArgumentCheck(1, (_SOCK_STREAM,), _SOCK_TYPE))
)
"""Stream sockets only, because one of a pair of datagram sockets can send to any address."""

_NO_SOCKETS: Final = (
    SyscallRule("socket connect bind listen accept accept4", errno.EACCES),
    _STREAM_PAIRS,
)


def _sockets(*families: int) -> SyscallRule:
    """Returns a rule that allows sockets of `families` and of netlink, by which name resolution lists addresses.

    Families such as AF_VSOCK belong to no network namespace. SOCK_PACKET would turn an internet socket into AF_PACKET.
    """
    return SyscallRule(
        "socket",
        errno.EACCES,
        (ArgumentCheck(0, families), ArgumentCheck(1, (_SOCK_PACKET,), _SOCK_TYPE, wanted=False)),
        alternative=(ArgumentCheck(0, (_AF_NETLINK,)), ArgumentCheck(2, (_NETLINK_ROUTE,))),
    )


_OWN_NETWORK_SOCKETS: Final = (
    _sockets(_AF_UNIX, _AF_INET, _AF_INET6),
    SyscallRule("socketpair", errno.EACCES, (ArgumentCheck(0, (_AF_UNIX,)),)),
)
"""Sockets that reach nothing outside of the step's own network namespace."""

_INTERNET_SOCKETS: Final = (_sockets(_AF_INET, _AF_INET6), _STREAM_PAIRS)
"""Without Unix sockets, by which a step would reach services of the machine."""

# Programs that set a file's time to the present create the file if the call fails.
_NOT_NOW: Final = (
    SyscallRule("utime utimes", unless=(ArgumentCheck(1, (0,), wanted=False),)),
    SyscallRule("utimensat futimesat", unless=(ArgumentCheck(2, (0,), wanted=False),)),
)


_USER, _PROCESSES, _NETWORK, _OTHERS = 0x10000000, 0x20000000, 0x40000000, 0x0E020000
"""Kinds of namespaces; the last covers mounts, host names, IPC and control groups together."""

_MAKE_NAMESPACES: Final = (
    SyscallRule("unshare", unless=(ArgumentCheck(0, (_USER, _PROCESSES, _OTHERS, _OTHERS | _NETWORK)),)),
    SyscallRule("setns", unless=(ArgumentCheck(1, (_PROCESSES,)),)),
    # A mask of no bits always holds.
    SyscallRule("mount", unless=(ArgumentCheck(0, (0,), 0),)),
)
_PACKET_FILTERS: Final = SyscallRule(
    "setsockopt",
    unless=(ArgumentCheck(1, (0, 41), wanted=False),),
    alternative=(ArgumentCheck(2, (64, 65, 96, 97, 128, 129), wanted=False),),
)
"""Tables of packet filters, which the owner of a network namespace could change: by the options of IPv4 and IPv6."""


def namespace_filter(network: Network) -> bytes:
    """Returns the filter for a step in namespaces of its own, of the network too unless `network` is full."""
    return _assemble(_rules_in_namespaces(network))


def template_filter(network: Network) -> bytes:
    """Returns the filter for a template, which may also make namespaces and mount; else it is `namespace_filter`."""
    return _assemble((*_MAKE_NAMESPACES, _PACKET_FILTERS, *_rules_in_namespaces(network)))


def forked_filter() -> bytes:
    """Returns the filter that a forked step adds to its template's filter, which it keeps.

    Both together refuse all that `namespace_filter` refuses, which would take 0.2 ms to load.
    """
    return _assemble([SyscallRule("unshare setns mount")])


def landlock_filter(network: Network, *, own_user: bool, scoped_signals: bool) -> bytes:
    """Returns the filter for a step under Landlock, which shares the namespaces of the host.

    A step that runs as the user of the service may not change the mode, owner or times of files, nor send signals if
    Landlock does not restrict these.
    """
    rules = [*KERNEL, *NO_ATTRIBUTES, *(_INTERNET_SOCKETS if network == "full" else _NO_SOCKETS)]
    rules += _NOT_NOW if own_user else SHARED_USER
    if not own_user and not scoped_signals:
        rules += NO_SIGNALS
    return _assemble(rules)


def _rules_in_namespaces(network: Network) -> tuple[SyscallRule, ...]:
    return (*KERNEL, *(_INTERNET_SOCKETS if network == "full" else _OWN_NETWORK_SOCKETS))


def _assemble(rules: Iterable[SyscallRule]) -> bytes:
    try:
        return assemble(rules)
    except UnsupportedProcessorError as error:
        raise SandboxUnavailableError(str(error)) from None
