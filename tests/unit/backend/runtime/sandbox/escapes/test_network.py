"""What a hostile step may try at the network."""

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from backend.runtime.agents import Limits
from tests.unit.backend.runtime.sandbox.escapes.attempt import ATTEMPT
from tests.unit.backend.runtime.sandbox.steps import Steps, marker


@pytest.mark.parametrize("kind", ["tcp", "udp", "abstract", "path", "datagram"])
@pytest.mark.parametrize("network", ["none", "full"])
def test_services_of_the_machine_are_out_of_reach(confined: Steps, kind: str, network: str, tmp_path: Path) -> None:
    """With the network only those on the internet's protocols can be reached, never a Unix socket."""
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
    """Looks at no machine but this one."""
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
