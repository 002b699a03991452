"""Headers, proxy and time-outs that a caller sets, and the version that each call names."""

import asyncio
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

import workflow_api_client
from contract.versions import RELEASE
from workflow_api_client import (
    AsyncClient,
    Client,
    ConfigurationError,
    ConnectionFailedError,
    TimedOutError,
    UnexpectedAnswerError,
)
from workflow_api_client.testing import FakeApi, complete
from workflow_api_client.testing.calls import EXTERNAL_ID, KEY


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


def test_other_options_hold_for_the_copy_alone(api: FakeApi) -> None:
    client = api.client(headers={"X-Tenant": "blue", "X-Team": "a"})
    client.with_options(headers={"x-tenant": "red"}).me()
    client.me()
    tenants = [(each.headers["x-tenant"], each.headers["x-team"]) for each in api.requests]
    assert tenants == [("red", "a"), ("blue", "a")]
    api.break_connection(times=3)
    with pytest.raises(ConnectionFailedError):
        client.with_options(retry_seconds=0).me()
    client.me()
    with pytest.raises(ConfigurationError, match="`headers`"):
        client.with_options(headers={"Authorization": "Bearer x"})
    with pytest.raises(ConfigurationError, match="`timeout`"):
        client.with_options(timeout=-1)


def test_options_hold_for_runs_that_the_copy_returns(api: FakeApi) -> None:
    api.workflow("Digest")

    async def work() -> None:
        async with api.async_client() as client:
            run = await client.with_options(headers={"X-Tenant": "red"}).runs.start("Digest")
            await run.refresh()
            await client.runs.get(run.id)

    asyncio.run(work())
    assert [each.headers.get("x-tenant") for each in api.requests] == ["red", "red", "red", None]


class Noting(httpx.BaseTransport):
    """A transport to a fake service that keeps the time-outs of requests, and whether it was closed."""

    def __init__(self, api: FakeApi) -> None:
        self._inner = api.transport()
        self.timeouts: list[float] = []
        self.closed = False

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.timeouts.append(request.extensions["timeout"]["read"])
        return self._inner.handle_request(request)

    def close(self) -> None:
        self.closed = True


def test_a_copy_has_its_own_time_and_the_same_connections(api: FakeApi) -> None:
    transport = Noting(api)
    client = Client("http://x", key=KEY, external_id=EXTERNAL_ID, timeout=7, transport=transport, clock=api.clock)
    with client.with_options(timeout=2) as hasty:
        hasty.me()
    client.me()
    assert transport.timeouts == [2, 7]
    assert not transport.closed
    client.close()
    assert transport.closed


def test_a_client_of_the_caller_is_used_and_left_open(api: FakeApi) -> None:
    transport = Noting(api)
    with httpx.Client(transport=transport, headers={"X-Own": "1"}, auth=("user", "word")) as http:
        for _ in range(3):
            with api.client(http_client=http) as client:
                client.me()
        assert not transport.closed
    assert {each.headers["x-own"] for each in api.requests} == {"1"}

    async def work() -> str:
        async with httpx.AsyncClient(transport=api.transport()) as http:
            async with api.async_client(http_client=http) as client:
                await client.me()
            return (await api.async_client(http_client=http).me()).name

    assert asyncio.run(work()) == "fake"


def test_a_client_of_the_caller_follows_no_redirect(api: FakeApi) -> None:
    asked: list[str] = []

    def redirect(request: httpx.Request) -> httpx.Response:
        asked.append(str(request.url))
        return httpx.Response(302, headers={"Location": "http://elsewhere.invalid/"})

    http = httpx.Client(transport=httpx.MockTransport(redirect), follow_redirects=True)
    with http, pytest.raises(UnexpectedAnswerError):
        api.client(http_client=http).me()
    assert asked == ["http://fake.invalid/api/v1/me"]


@pytest.mark.parametrize("option", [{"proxy": "http://proxy:3128"}, {"verify": False}, {"transport": True}])
@pytest.mark.parametrize(("kind", "http"), [(Client, httpx.Client), (AsyncClient, httpx.AsyncClient)])
def test_options_of_the_connections_belong_to_the_callers_client(kind: Any, http: Any, option: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="http_client"):
        kind("http://x", key="k", external_id="e", http_client=http(), **option)


def test_a_client_of_the_caller_may_serve_any_number_of_clients(proxy: tuple[str, list[str]]) -> None:
    address, asked = proxy
    with httpx.Client(proxy=address) as http:
        made = [Client("http://x.invalid", key="k", external_id="e", http_client=http) for _ in range(3000)]
        assert made[-1].health().deployment_id == "behind"
    assert len(asked) == 1
