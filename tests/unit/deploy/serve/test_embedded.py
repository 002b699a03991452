"""All parts by one command."""

import http.client
import os
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

from tests.support.part import Part, address_of, refused
from tests.support.poll import LONGEST_WAIT_SECONDS
from tests.support.wire import BASE, Address

HELD_UP = """\
import console.app
from aiohttp import web

async def held_up(_, __):
    # Blocks its event loop until whoever opened the other end closes it.
    with open({fifo!r}) as other_end:
        return web.Response(text=other_end.read())

console.app.ROUTES = tuple(
    route._replace(handler=held_up) if route.path == console.app.HEALTH else route for route in console.app.ROUTES
)
"""


def status(address: Address, path: str) -> int:
    connection = http.client.HTTPConnection(*address, timeout=LONGEST_WAIT_SECONDS)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


def test_a_console_whose_event_loop_is_held_up_delays_no_call_of_the_api(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    (tmp_path / "sitecustomize.py").write_text(HELD_UP.format(fifo=str(fifo)))
    data = tmp_path / "data"
    ports = ("--http", "127.0.0.1:0", "--grpc", f"unix:{tmp_path}/grpc", "--console", "127.0.0.1:0")
    with (
        Part.started(
            tmp_path / "part", "serve", *ports, "--data", str(data), variables={"PYTHONPATH": str(tmp_path)}
        ) as part,
        ThreadPoolExecutor(1) as browser,
    ):
        console = urlsplit(part.ready["console"])
        assert console.hostname is not None
        assert console.port is not None
        page = browser.submit(status, (console.hostname, console.port), "/healthz")
        # Opens once the console's loop waits for it.
        with fifo.open("w"):
            assert status(address_of(part.ready["base_address"]), f"{BASE}/health") == 200
            assert not page.done()
        assert page.result(LONGEST_WAIT_SECONDS) == 200


def test_a_console_address_in_use_ends_the_start_with_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        console = f"127.0.0.1:{other.getsockname()[1]}"
        ports = ("--http", "127.0.0.1:0", "--grpc", f"unix:{tmp_path}/grpc", "--console", console)
        said = refused("serve", *ports, "--data", str(tmp_path / "data"), variables={"WORKFLOW_API_LOG_LEVEL": "error"})
    assert said == f"The console address {console} is in use by another process."
