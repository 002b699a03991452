"""Headers, proxy and time-outs that a caller sets, and the version that each call names."""

import asyncio
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import workflow_api_client
from contract.versions import RELEASE
from workflow_api_client import AsyncClient, Client, ConfigurationError, TimedOutError
from workflow_api_client.testing import FakeApi, complete


def test_every_call_names_the_version_of_the_client(api: FakeApi) -> None:
    api.client().me()
    assert api.requests[-1].headers["user-agent"] == f"workflow-api-client/{workflow_api_client.__version__}"
    assert workflow_api_client.__version__ == RELEASE


def test_headers_of_the_caller_go_with_every_call(api: FakeApi) -> None:
    api.workflow("Digest", script=[complete({"pages": 1}, outputs={"work/a.txt": "a"})])
    client = api.client(headers={"X-Tenant": "blue", "User-Agent": "shop/2"})
    run = client.runs.start("Digest").wait()
    run.outputs.read("work/a.txt")
    list(run.events(live=True))
    assert {(each.headers["x-tenant"], each.headers["user-agent"]) for each in api.requests} == {("blue", "shop/2")}


@pytest.mark.parametrize(
    "headers", [{"Authorization": "Bearer x"}, {"range": "bytes=0-"}, {"X-A": "a\r\nX-B: b"}, {"X A": "a"}, {"": ""}]
)
@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_headers_that_cannot_be_sent_or_are_the_clients_own_are_refused(kind: Any, headers: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="`headers`"):
        kind("http://x", key="k", external_id="e", headers=headers)


@pytest.fixture
def proxy() -> Iterator[tuple[str, list[str]]]:
    """A proxy that answers every request itself, and the addresses that it was asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            body = b'{"status": "ok", "deployment_id": "behind", "api_version": "2026-09-24"}'
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.02,))
        serving.start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()
        serving.join()


def test_calls_go_through_the_proxy_that_is_given(proxy: tuple[str, list[str]]) -> None:
    address, asked = proxy
    with Client("http://flows.invalid", key="k", external_id="e", proxy=address) as client:
        assert client.health().deployment_id == "behind"

    async def work() -> str:
        async with AsyncClient("http://flows.invalid", key="k", external_id="e", proxy=address) as client:
            return (await client.health()).deployment_id

    assert asyncio.run(work()) == "behind"
    assert asked == ["http://flows.invalid/api/v1/health"] * 2


def test_a_call_ends_with_its_own_time_retries_included(api: FakeApi) -> None:
    api.workflow("Digest")
    api.break_connection(times=100)
    begun = api.clock.now()
    with pytest.raises(TimedOutError):
        api.client(retry_seconds=90).me(timeout=5)
    assert api.clock.now() - begun == pytest.approx(5)


def test_a_start_and_a_download_end_with_their_own_time(api: FakeApi, tmp_path: Path) -> None:
    api.workflow("Digest", script=[complete(outputs={"work/a.txt": "a" * 1000})])
    client = api.client()
    run = client.runs.start("Digest", timeout=5).wait()
    api.refuse("rate_limited", retry_after=6, times=10)
    for call in (
        lambda: run.outputs.download(tmp_path, timeout=5),
        lambda: run.outputs.read("work/a.txt", timeout=5),
        lambda: run.refresh(timeout=5),
        lambda: client.runs.start("Digest", timeout=5),
        lambda: run.cancel(timeout=5),
    ):
        with pytest.raises(TimedOutError):
            call()


@pytest.mark.parametrize("timeout", [-1, float("inf"), float("nan")])
def test_a_time_that_is_none_is_refused(api: FakeApi, timeout: float) -> None:
    with pytest.raises(ValueError, match="`timeout`"):
        api.client().me(timeout=timeout)
