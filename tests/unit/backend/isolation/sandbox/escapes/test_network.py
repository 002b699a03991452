"""Attacks of a hostile step on the network."""

import os
import platform
import signal
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from backend.runtime.agents import Limits
from tests.unit.backend.isolation.sandbox.escapes.attempt import ATTEMPT
from tests.unit.backend.isolation.sandbox.steps import Steps, marker

REACH = """
import socket
def reach(make, address):
    try:
        client = make()
        client.settimeout(2)
        client.connect(tuple(address) if isinstance(address, list) else address.replace("@", chr(0)))
        client.send(b"x")
    except OSError:
        pass
def run(context):
    for listener in context.parameters["listeners"]:
        family = socket.AF_INET if listener["internet"] else socket.AF_UNIX
        kind = socket.SOCK_STREAM if listener["stream"] else socket.SOCK_DGRAM
        reach(lambda: socket.socket(family, kind), listener["address"])
        if not listener["internet"]:
            reach(lambda: socket.socketpair(socket.AF_UNIX, kind)[0], listener["address"])
"""


@pytest.mark.parametrize("network", ["none", "full"])
def test_services_of_the_machine_are_out_of_reach(confined: Steps, network: str, tmp_path: Path) -> None:
    """A step with network reaches services by internet protocols, never by Unix sockets."""
    with ExitStack() as stack:
        listeners = {
            kind: stack.enter_context(_listener(kind, address))
            for kind, address in {
                "tcp": ("127.0.0.1", 0),
                "udp": ("127.0.0.1", 0),
                "abstract": f"\0step-{marker()}",
                "path": os.path.relpath(tmp_path / "s"),
                "datagram": f"\0step-{marker()}",
            }.items()
        }
        (tmp_path / "s").chmod(0o777)
        parameters = [
            {
                "address": str(tmp_path / "s") if kind == "path" else _as_json(listener.getsockname()),
                "internet": listener.family == socket.AF_INET,
                "stream": listener.type == socket.SOCK_STREAM,
            }
            for kind, listener in listeners.items()
        ]
        confined.run(
            REACH,
            parameters={"listeners": parameters},
            limits=Limits(1024, 60, 16, network),  # type: ignore[arg-type]
        )
        reached = {kind for kind, listener in listeners.items() if _was_reached(listener)}
    assert reached == ({"tcp", "udp"} if network == "full" else set())


def _listener(kind: str, address: Any) -> socket.socket:
    family = socket.AF_INET if kind in {"tcp", "udp"} else socket.AF_UNIX
    stream = kind in {"tcp", "abstract", "path"}
    listener = socket.socket(family, socket.SOCK_STREAM if stream else socket.SOCK_DGRAM)
    listener.bind(address)
    if stream:
        listener.listen()
    listener.setblocking(False)
    return listener


def _as_json(address: Any) -> Any:
    return list(address) if isinstance(address, tuple) else os.fsdecode(address).replace("\0", "@")


def _was_reached(listener: socket.socket) -> bool:
    """Returns whether the step, which has ended, connected or sent something: both are there at once on a machine."""
    try:
        if listener.type == socket.SOCK_STREAM:
            listener.accept()[0].close()
        else:
            listener.recv(10)
    except BlockingIOError:
        return False
    return True


def test_a_step_with_the_network_can_name_and_trust_other_machines(confined: Steps) -> None:
    """Connects to this machine only."""
    names, certificates = confined.run(
        """
        import os, socket, ssl
        def run(context):
            return [bool(socket.getaddrinfo("localhost", 80)), bool(ssl.create_default_context().get_ca_certs())
                    or any(os.access(f"/etc/ssl/{name}", os.R_OK) for name in ("certs", "cert.pem"))
                    or not context.parameters["certificates"]]
        """,
        parameters={"certificates": Path("/etc/ssl/certs").exists()},
        limits=Limits(1024, 60, 16, "full"),
    )
    assert names
    assert certificates


def test_private_keys_beside_the_certificates_stay_hidden(confined: Steps) -> None:
    opened = confined.run(
        ATTEMPT
        + "\ndef run(context): return [attempt(os.listdir, p) for p in ('/etc/ssl/private', '/etc/pki/private')]",
        limits=Limits(1024, 60, 16, "full"),
    )
    assert None not in opened


LOCAL_AND_INTERNET = {socket.AF_UNIX, socket.AF_INET, socket.AF_INET6}
PACKETS = 10
"""SOCK_PACKET, with which the kernel reads AF_INET as AF_PACKET, for programs older than that family."""


@pytest.mark.parametrize("network", ["none", "full"])
def test_only_sockets_of_local_and_internet_families_can_be_made(confined: Steps, network: str) -> None:
    """AF_VSOCK and others belong to no network namespace; the filter refuses them before the kernel sees them."""
    sockets, pairs, netlink, packets = confined.run(
        """
        import errno, socket
        KINDS = [socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET]
        def answer(make, *arguments):
            try:
                made = make(*arguments)
            except OSError as error:
                return errno.errorcode[error.errno]
            for one in made if isinstance(made, tuple) else [made]:
                one.close()
            return "opened"
        def run(context):
            sockets = [sorted({answer(socket.socket, family, kind) for kind in KINDS}) for family in range(64)]
            pairs = [sorted({answer(socket.socketpair, family, kind) for kind in KINDS}) for family in range(64)]
            netlink = [answer(socket.socket, socket.AF_NETLINK, socket.SOCK_RAW, protocol) for protocol in range(32)]
            packets = [answer(socket.socket, socket.AF_INET, context.parameters["packets"] | flag, 0x300)
                       for flag in (0, socket.SOCK_CLOEXEC, socket.SOCK_NONBLOCK)]
            return [sockets, pairs, netlink, packets]
        """,
        parameters={"packets": PACKETS},
        limits=Limits(1024, 60, 16, network),  # type: ignore[arg-type]
    )
    namespaced = confined.sandbox.layer.name == "bwrap"
    allowed = {family for family, answers in enumerate(sockets) if answers != ["EACCES"]} - {socket.AF_NETLINK}
    if network == "full":
        assert allowed == {socket.AF_INET, socket.AF_INET6}
    else:
        assert allowed == (LOCAL_AND_INTERNET if namespaced else set())
    assert {family for family, answers in enumerate(pairs) if answers != ["EACCES"]} == {socket.AF_UNIX}
    # Addresses and routes, which name resolution reads.
    assert netlink[0] == ("opened" if namespaced or network == "full" else "EACCES")
    assert {*netlink[1:], *packets} == {"EACCES"}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="other processors have one numbering of calls")
def test_no_other_numbering_of_calls_and_no_ring_makes_a_socket(confined: Steps) -> None:
    """`int 0x80` uses the numbers of 32-bit Linux, where 359 is socket; io_uring creates sockets without a call."""
    second, ring, status = confined.run(
        """
        import ctypes, errno, mmap, os
        libc = ctypes.CDLL(None, use_errno=True)
        def called(number, *arguments):
            libc.syscall(ctypes.c_ulong(number), *arguments)
            return errno.errorcode.get(ctypes.get_errno())
        def run(context):
            second = [called(0x40000000 | call, 1, 1, 0, 0, 0, 0) for call in (41, 53, 425, 536)]
            ring = called(425, 8, ctypes.create_string_buffer(120))
            child = os.fork()
            if child == 0:
                code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
                # push rbx; mov eax, 359; mov ebx, 40; mov ecx, 1; xor edx, edx; int 0x80; pop rbx; ret
                code.write(bytes.fromhex("53b867010000bb28000000b90100000031d2cd805bc3"))
                ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()
                os._exit(0)
            return [second, ring, os.waitpid(child, 0)[1]]
        """
    )
    assert {*second, ring} == {"ENOSYS"}
    assert status & 0x7F in {signal.SIGSYS, signal.SIGSEGV}
