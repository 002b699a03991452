"""Attacks of a hostile step on the network."""

import os
import platform
import signal
import socket
from pathlib import Path
from typing import Any

import pytest

from backend.runtime.agents import Limits
from tests.unit.backend.sandbox.escapes.attempt import ATTEMPT
from tests.unit.backend.sandbox.steps import Steps, marker


@pytest.mark.parametrize("kind", ["tcp", "udp", "abstract", "path", "datagram"])
@pytest.mark.parametrize("network", ["none", "full"])
def test_services_of_the_machine_are_out_of_reach(confined: Steps, kind: str, network: str, tmp_path: Path) -> None:
    """A step with network reaches services by internet protocols, never by Unix sockets."""
    internet = kind in {"tcp", "udp"}
    stream = kind in {"tcp", "abstract", "path"}
    name: Any = {
        "tcp": ("127.0.0.1", 0),
        "udp": ("127.0.0.1", 0),
        "abstract": f"\0step-{marker()}",
        "path": os.path.relpath(tmp_path / "s"),
        "datagram": f"\0step-{marker()}",
    }[kind]
    family = socket.AF_INET if internet else socket.AF_UNIX
    with socket.socket(family, socket.SOCK_STREAM if stream else socket.SOCK_DGRAM) as listener:
        listener.bind(name)
        if stream:
            listener.listen()
        listener.settimeout(0.2)
        address = listener.getsockname()
        if kind == "path":
            address = str(tmp_path / "s")
            Path(address).chmod(0o777)
        confined.run(
            """
            import socket
            def reach(make, address):
                try:
                    client = make()
                    client.settimeout(2)
                    client.connect(tuple(address) if isinstance(address, list) else address)
                    client.send(b"x")
                except OSError:
                    pass
            def run(context):
                p = context.parameters
                family = socket.AF_INET if p["internet"] else socket.AF_UNIX
                kind = socket.SOCK_STREAM if p["stream"] else socket.SOCK_DGRAM
                address = p["address"].replace("@", chr(0)) if isinstance(p["address"], str) else p["address"]
                reach(lambda: socket.socket(family, kind), address)
                if not p["internet"]:
                    reach(lambda: socket.socketpair(socket.AF_UNIX, kind)[0], address)
            """,
            parameters={
                "address": list(address) if internet else os.fsdecode(address).replace("\0", "@"),
                "internet": internet,
                "stream": stream,
            },
            limits=Limits(1024, 60, 16, network),  # type: ignore[arg-type]
        )
        try:
            if stream:
                listener.accept()[0].close()
            else:
                listener.recv(10)
            reached = True
        except TimeoutError:
            reached = False
    assert reached == (internet and network == "full")


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
