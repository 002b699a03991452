"""Builds the filter of system calls that every isolated step runs under.

It takes away what no step needs and what the other means of a layer do not cover; it is no list of what is allowed.
"""

import errno
from collections.abc import Iterable
from typing import Final

from backend.confined.bpf import Check, Rule, UnsupportedProcessorError, assemble
from backend.confined.syscall_rules import KERNEL, NO_ATTRIBUTES, NO_SIGNALS, SHARED_USER
from backend.runtime.sandbox.layer import SandboxUnavailableError
from backend.runtime.sandbox.limits import Network

_AF_UNIX, _AF_INET, _AF_INET6, _SOCK_STREAM = 1, 2, 10, 1

_NO_SOCKETS: Final = (
    Rule("socket connect bind listen accept accept4", errno.EACCES),
    Rule("socketpair", errno.EACCES, (Check(0, (_AF_UNIX,)), Check(1, (_SOCK_STREAM,), 0xF))),
)
"""A pair of datagram sockets could send to any name, so a pair is one of streams."""

_INTERNET_SOCKETS: Final = (
    Rule("socket", errno.EACCES, (Check(0, (_AF_INET, _AF_INET6)),)),
    Rule("socketpair", errno.EACCES, (Check(0, (_AF_UNIX,)), Check(1, (_SOCK_STREAM,), 0xF))),
)
"""The machine's services on Unix sockets are not part of the network."""

# Programs that set a file's time to now make the file when that fails.
_NOT_NOW: Final = (
    Rule("utime utimes", unless=(Check(1, (0,), wanted=False),)),
    Rule("utimensat futimesat", unless=(Check(2, (0,), wanted=False),)),
)


def namespace_filter(network: Network) -> bytes:
    """The filter for a step in namespaces of its own; the network's is its own too unless `network` is full."""
    return _assemble((*KERNEL, *(_INTERNET_SOCKETS if network == "full" else ())))


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
