"""The log line of a request to the console that had no answer."""

import socket
from collections.abc import Callable
from pathlib import Path

from telemetry.requests import CONSOLE_REQUEST
from tests.support.log_lines import written_log
from tests.support.poll import until
from tests.unit.console.conftest import Desk


def test_a_request_that_the_end_of_the_process_cuts_off_is_aborted(start: Callable[..., Desk], tmp_path: Path) -> None:
    desk = start(drain_seconds=0.01)
    session = desk.channel.begin("bob")
    request = f"GET /held HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: session={session}\r\n\r\n"
    with (
        written_log(tmp_path / "log", CONSOLE_REQUEST) as log,
        socket.create_connection(("127.0.0.1", desk.console.port), timeout=60) as caller,
    ):
        caller.sendall(request.encode())
        until(lambda: desk.visits, "the request")
        desk.stop()
        (line,) = until(log.lines, "its line")
    assert (line["route"], line["status"], line["reason"]) == ("/held", 0, "aborted")
