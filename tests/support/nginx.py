"""A real nginx on loopback: a load balancer in front of one edge, a delivery network's front door before another."""

import os
import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.poll import until
from tests.support.ports import answers, reserved_port
from tests.support.wire import Address

VIEWER_HEADER = "X-Viewer-Address"

# A delivery network writes `ip:port`; two addresses are configured, because no test can call from them.
_CONFIG = """
daemon off;
master_process off;
pid {folder}/pid;
error_log {folder}/error.log;
events {{ worker_connections 256; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    client_max_body_size 2m;
    large_client_header_buffers 4 32k;
    proxy_http_version 1.1;
    proxy_buffering off;
    map $remote_addr $viewer {{
        default $remote_addr:$remote_port;
        127.0.0.6 [2001:db8::7]:46532;
        127.0.0.7 unknown;
    }}
    upstream balanced {{ server 127.0.0.1:{balanced}; keepalive 4; }}
    upstream delivered {{ server 127.0.0.1:{delivered}; keepalive 4; }}
    server {{
        listen 127.0.0.1:{balancer};
        location / {{
            proxy_pass http://balanced;
            proxy_set_header Connection "";
            proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
        }}
    }}
    server {{
        listen 127.0.0.1:{front_door};
        location / {{
            proxy_pass http://delivered;
            proxy_set_header Connection "";
            proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
            proxy_set_header {client_address_header} $viewer;
        }}
    }}
}}
"""


class Nginx:
    """Serves from the start until it is closed."""

    def __init__(self, folder: Path, *, balanced: Address, delivered: Address) -> None:
        """Takes the edges behind the load balancer and behind the front door."""
        # Debian keeps it where only administrators look.
        program = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
        if program is None:
            pytest.skip("nginx is not installed (Debian: apt-get install nginx-light)")
        self._held = ExitStack()
        ports = self._held.enter_context(reserved_port()), self._held.enter_context(reserved_port())
        self.balancer: Address = ("127.0.0.1", ports[0])
        self.front_door: Address = ("127.0.0.1", ports[1])
        config = folder / "nginx.conf"
        config.write_text(
            _CONFIG.format(
                folder=folder,
                balanced=balanced[1],
                delivered=delivered[1],
                balancer=ports[0],
                front_door=ports[1],
                client_address_header=VIEWER_HEADER,
            )
        )
        self._process = subprocess.Popen(
            [program, "-p", str(folder), "-c", str(config), "-e", str(folder / "error.log")], stdin=subprocess.DEVNULL
        )
        until(lambda: answers(ports[0]) and answers(ports[1]), "nginx to listen")

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(timeout=60)
        self._held.close()
