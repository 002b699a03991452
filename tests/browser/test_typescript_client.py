"""The TypeScript client in a page: its modules as they are built, and the service on another origin."""

import functools
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.support.npm_package import Package
from tests.support.service import Service

pytestmark = pytest.mark.long

STEPS = """async ([url, key, externalId]) => {
    const { ApiError, Client } = await import("/dist/index.js");
    const client = new Client(url, { key, externalId });
    const run = await client.runs.start("Echo", { inputText: "hello" });
    const seen = [];
    for await (const event of run.events({ live: true })) seen.push(event.type);
    await run.wait({ timeoutSeconds: 60 });
    const [whole, part] = await Promise.all([
        run.outputs.read("echo/echo.txt"), run.outputs.read("echo/echo.txt", { begin: 1, end: 4 }),
    ]);
    const refused = await client.runs.get("run_none").catch((error) => error);
    return {
        seen, result: run.result.text, whole: new TextDecoder().decode(whole), part: new TextDecoder().decode(part),
        code: refused instanceof ApiError && refused.code,
    };
}"""


class _Files(SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        """Writes nothing."""


@pytest.fixture(scope="module")
def page_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a page whose origin has the built modules."""
    package = Package(tmp_path_factory.mktemp("typescript"))
    (Path(package.folder) / "index.html").write_text("<!doctype html><title>A page of a caller</title>")
    files = functools.partial(_Files, directory=str(package.folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), files) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/index.html"
        server.shutdown()


def test_a_page_starts_follows_and_reads_a_run(console: Service, chromium: Browser, page_address: str) -> None:
    caller = console.new_caller(rate_limit_rpm=1000)
    host, port = caller.address
    page = chromium.new_page()
    page.goto(page_address)
    told = page.evaluate(STEPS, [f"http://{host}:{port}", caller.key, caller.external_id])
    page.close()
    assert told["seen"][-1] == "segment.ended"
    assert "run.completed" in told["seen"]
    assert (told["result"], told["whole"], told["part"]) == ("hello", "hello", "ell")
    assert told["code"] == "run_not_found"
